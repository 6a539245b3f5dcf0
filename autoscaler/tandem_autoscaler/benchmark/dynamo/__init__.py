"""NVIDIA Dynamo's own planner (the ai-dynamo wheels, Apache-2.0) as a baseline: its code, untouched, on our fleet.

environment.py       the separate Python environment it runs in, made on first use
planner_process.py   runs there: theirs behind JSON lines
The policy that speaks to it is `simulator/policies/dynamo.py`.
"""
