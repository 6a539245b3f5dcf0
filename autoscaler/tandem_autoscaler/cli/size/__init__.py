"""`kubectl tandem size`: does a model fit, for how many users, and how fast can it be at most. Without a cluster.

command.py    the flags, and the steps
question.py   flags or a manifest -> what is asked, one question per role
source.py     a model by name, from a config.json, or from a Hugging Face hub
answer.py     the arithmetic (pure), and what would make it fit
modes.py      Colocated or Disaggregated for traffic that is planned
report.py     for people;  document.py: for programs
"""
