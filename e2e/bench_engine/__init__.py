"""`make bench-engine`: what the engine's own switches are worth, on the real vLLM on this machine's CPU.

environment.py    the engine's virtual environment and a model with random weights, from nothing
engine.py         engine and router processes, each pinned to its cores
traffic.py        who asks when for how much, as a trace file (pure)
load.py           `vllm bench serve` sends the trace; what it measured of each request
cases.py          which engines are compared on which traffic
rows.py           rows of build/bench/engine.json, the table, and the effects between them (pure)
late_demotion.py  the worker's gate with and without late demotion
"""
