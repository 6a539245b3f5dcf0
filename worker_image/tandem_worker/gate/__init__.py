"""The gate: pure ASGI middleware in front of any engine's app (`--middleware tandem_worker.gate.Gate`).

It keeps the promise that no accepted request ends without an end, refuses new ones once closing, and times
TTFT and TPOT into histograms whose edges lie on the service's targets. It imports nothing of the engine.
"""

from tandem_worker.gate.middleware import Gate

__all__ = ["Gate"]
