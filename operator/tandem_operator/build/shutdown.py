"""How long a worker has to end its streams, once its pod is deleted.

preStop runs before SIGTERM: it closes the gate and waits for open streams (or, in an image without the gate,
until the router has dropped the pod). Then the engine gets its own shutdown timeout. Both must fit into the
grace period, or the kubelet cuts what is left (FIELD fact 3).
"""

import math
from dataclasses import dataclass

# vllm-router drops a pod in the second its label goes; endpoints of a Service take longer.
STOCK_IMAGE_WAIT_SECONDS = 15
MARGIN_SECONDS = 5


@dataclass(frozen=True)
class ShutdownTimes:
    """All in whole seconds, as Kubernetes wants them."""

    gate_deadline_seconds: int
    stock_wait_seconds: int
    engine_timeout_seconds: int
    grace_seconds: int

    def pre_stop_script(self) -> str:
        return (
            "if command -v tandem-worker >/dev/null; "
            f"then exec tandem-worker close --deadline {self.gate_deadline_seconds}; "
            f"else sleep {self.stock_wait_seconds}; fi"
        )


def shutdown_times(deadline_seconds: float, *, user_grace_seconds: int | None = None) -> ShutdownTimes:
    """Times from spec.drain.deadline, or squeezed into the grace period of the user's own template."""
    if user_grace_seconds is None:
        deadline = max(1, math.ceil(deadline_seconds))
        pre_stop = max(deadline, STOCK_IMAGE_WAIT_SECONDS)
        return ShutdownTimes(
            deadline, STOCK_IMAGE_WAIT_SECONDS, deadline, pre_stop + deadline + 6 * MARGIN_SECONDS
        )
    usable = max(2, user_grace_seconds - MARGIN_SECONDS)
    gate = max(1, min(math.ceil(deadline_seconds), usable // 2))
    stock = min(STOCK_IMAGE_WAIT_SECONDS, usable // 2)
    return ShutdownTimes(gate, stock, max(1, usable - max(gate, stock) - 1), user_grace_seconds)
