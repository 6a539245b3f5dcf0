"""Traces by name, and from a user's CSV.

named.py         `named(name, seed)`, NAMES
recorded.py      one recorded hour, as it was or as k copies of it
azure_2024.py    a day of Azure's conversation service, reconstructed from digitised figures
servegen.py      24 h of DeepSeek-R1 traffic, client by client
dynamo_sine.py   the test that NVIDIA published for its own planner
arrivals.py      Poisson arrivals at a rate that moves
lengths.py       prompt and output lengths of made-up traces
step.py, mix_shift.py, diurnal.py, idle_spike.py   made-up loads, one difficulty each
csv_file.py      `from_csv(path)`
"""

from tandem_autoscaler.simulator.traces.csv_file import from_csv
from tandem_autoscaler.simulator.traces.named import NAMES, named

__all__ = ["NAMES", "from_csv", "named"]
