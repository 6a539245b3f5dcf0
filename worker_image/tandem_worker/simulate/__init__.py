"""An engine without a GPU: the HTTP API and metric names of vLLM, with timings from a profile.

profile.py     named constants of one device and model          scheduler.py  continuous batching (pure)
engine.py      runs the scheduler in real time                   transfer.py   KV hand-over between engines
metrics.py     vLLM's series                                     protocol.py   what clients may ask
answers.py     what they are told                                app.py        the routes
serve.py       the server
"""
