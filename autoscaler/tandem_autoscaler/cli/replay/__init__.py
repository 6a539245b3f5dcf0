"""`kubectl tandem replay`: a manifest and a trace -> what each policy would have given its users, and for how much.

command.py          flags, and the order of the steps
manifest.py         the InferenceService, as the autoscaler would see it
worker.py           which worker of the simulator's catalogue the manifest means
requests.py         the trace: by name, from a CSV, or from_prometheus.py
play.py             the simulations;  policy.py what runs in them
recommendation.py   minReplicas and maxReplicas
report.py           tables for the terminal, with sparkline.py;  document.py JSON and YAML;  plot.py a picture

Only command.py is imported before it is known whether the `sim` extra (numba, matplotlib) is installed.
"""
