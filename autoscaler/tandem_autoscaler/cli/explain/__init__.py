"""`kubectl tandem explain`: why each role has the workers that it has, in the numbers of the decision itself.

command.py   the flags, and the steps
happened.py  the service's events
report.py    for people;  document.py: for programs
"""
