"""The worker's own process: check the model, put a gate in front of the engine, start the engine.

`tandem-worker MODEL [engine flags]` takes the same command line as `vllm serve`.
"""
