"""What a service is bound by, and what would help most. Pure: `diagnose(facts)`, on the models of the decision.

facts.py       what was measured and learnt, as `decide` sees it
machine.py     what else is known of a worker: model, GPU, precision
plant.py       the fleet at the present load in the decision's own models; what a fix changes is replaced in it
bottleneck.py  which limit binds, with the evidence
fixes.py       what could be changed, with the predicted effect of each
diagnosis.py   `diagnose`: the steps above in order
"""
