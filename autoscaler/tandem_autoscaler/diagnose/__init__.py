"""What a service is bound by, and what would help most. Pure: `diagnose(facts)`, on the models of the decision.

facts.py       what was measured and learnt, as `decide` sees it
machine.py     what else is known of a worker: model, GPU, precision
plant.py       the fleet at the present load in the decision's own models; what a fix changes is replaced in it
mixed.py       what the measurements say of single steps, where prompts and answers share them
chunking.py    the chunk tuner: token budget and long-prompt threshold that need the fewest workers
break_even.py  Colocated or Disaggregated for the same traffic
bottleneck.py  which limit binds, with the evidence
fixes.py       what could be changed, with the predicted effect of each
diagnosis.py   `diagnose`: the steps above in order
"""
