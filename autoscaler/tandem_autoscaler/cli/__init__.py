"""`kubectl tandem`: what people ask Tandem from a terminal. A package or module per subcommand.

main.py      the program and its subcommands
status/      what serves, and whether the promises are kept
explain/     why each role has the workers that it has
diagnose/    what binds, and what would help most
pause.py     pause and resume
size/        does a model fit, and how fast can it be; without a cluster
replay/      a manifest against a trace, without a cluster
mistake.py   what a user can put right: one line, exit status 2
cluster.py   the user's cluster: kubeconfig, context, namespace;  view.py: a service as read from it
manifest.py  an InferenceService in a file
output.py    tables, JSON and YAML
"""
