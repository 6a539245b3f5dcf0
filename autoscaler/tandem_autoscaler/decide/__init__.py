"""How many workers each role should have, and why. Pure: `decide(state, service, snapshot)`.

decision.py    `Decision`, `Outcome` and why a decision was made
settings.py    the constants of the rule
state.py       `ServiceState`: all that is remembered; to and from the numbers in status
quality.py     are the measurements good enough to act on
load.py        what is asked of the service: arrivals, lengths
learning.py    measurements -> models
attainment.py  how well the promises were kept
easing.py      the slow gain: better kept than asked for may cost less
need_prefill.py, need_decode.py   workers that the load needs by the model
need_colocated.py   those that both phases need in the same steps
reactive.py    what raises the need when the model was wrong, and who is to blame
wish.py        what each role should have before limits
gate.py        limits, and when a pool may shrink
budget.py      GPUs over the roles
verdicts.py    the conditions
words.py       numbers as people read them
sizing.py      `decide`: the steps above in order
"""
