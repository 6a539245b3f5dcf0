"""Late demotion: who cannot be in time any more makes room for those who can.

order.py         main queue and low queue (pure)
prefill_time.py  how long a prompt will take, learnt from those before it (pure)
admission.py     holds requests and lets them in by that order
"""

from tandem_worker.gate.demotion.admission import LateDemotion

__all__ = ["LateDemotion"]
