"""A fleet without GPUs: requests of a trace against prefill and decode workers, and a policy that sizes them.

hardware.py   what one worker can do: prefill time, decode iteration, KV capacity
trace.py      requests: when, prompt tokens, output tokens;  traces/ makes them
fleet.py      `Fleet`: the discrete-event fleet;  core.py its event loop, compiled, on the arrays of state.py
view.py       what a policy may look at
readings.py   the same as the engines' own metrics, for the real autoscaler;  exported.py their histograms
policies/     whom to compare: one policy per module, ours drives `decide` itself
run.py        trace + fleet + policy -> `Result`
hindsight.py  the cheapest schedule that someone who knows the trace could have had

Needs the `sim` extra (numba). Nothing here is imported by the running autoscaler.
"""
