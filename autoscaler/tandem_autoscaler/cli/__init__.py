"""`kubectl tandem`: what people ask Tandem from a terminal. A package or module per subcommand.

main.py     the program and its subcommands
mistake.py  what a user can put right: one line, exit status 2
replay/     a manifest against a trace, without a cluster
"""
