"""`make bench-policies`: every policy on every trace in the simulator, and what it costs to keep the promise.

case.py         one run: trace, policy and its constants, cold start, router, what fails;  what it runs on
contenders.py   who takes part
suite.py        which cases make up the benchmark
tuning.py       constants chosen on seeds that are not reported
play.py         cases to rows, on several processes;  row.py one line of policies.json
frontier.py     cost at equal attainment, means with confidence intervals
table.py, pareto.py, verdict.py   for the reader
dynamo/         NVIDIA's planner in an environment of its own
tick.py         the cost of one tick of the autoscaler itself

Needs the `sim` extra. Nothing here is imported by the running autoscaler.
"""
