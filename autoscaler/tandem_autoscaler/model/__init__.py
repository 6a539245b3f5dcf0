"""What a worker can do, learnt while it works. Pure: numbers in, numbers out.

queueing.py        Erlang C, the probability that a prompt is late
prompt_lengths.py  buckets of prompt lengths -> a discrete distribution
samples.py         robust gain from recent samples
prefill.py         seconds per prompt as a function of its length
decode.py          seconds per token as a function of the batch
mixed_step.py      one step of a worker that computes prompts and answers together
colocated.py       how many requests are late on such a worker
unmixed.py         its steps, out of what prefill.py and decode.py learn of it
rated.py           what one such worker serves
"""
