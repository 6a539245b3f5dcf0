"""`kubectl tandem status`: what serves, whether the promises are kept, and what stands in the way.

command.py   the flags, and the steps
report.py    for people;  document.py: for programs
"""
