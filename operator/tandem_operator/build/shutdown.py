"""How long a worker has to end its streams, once its pod is deleted.

preStop runs before SIGTERM: it serves on until the router has let go of the pod, closes the gate and waits for open
streams (in an image without the gate: only the first). Then the engine gets its own shutdown timeout. All must fit
into the grace period, or the kubelet cuts what is left (FIELD fact 3).

A worker that the operator drained is out of the router long before; one that is deleted by hand, evicted or preempted
is not: the router hears of it when everybody does, and what it sends until then must still be served.
"""

import math
from dataclasses import dataclass

from tandem_api import names

# vllm-router drops a pod in the second its label goes, and the operator takes that as soon as it sees the deletion.
SETTLE_SECONDS = 3
# Endpoints of a Service take longer, and a stock image sees nothing end.
STOCK_IMAGE_WAIT_SECONDS = 15
MARGIN_SECONDS = 5
# Ends when nobody listens at host and port any more, or so many seconds later. An answer that fails once is no end.
_OUTLIVE = """\
import socket, sys, time
host, port, ends, failures = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3]), 0
while failures < 3 and time.monotonic() < ends:
    try:
        socket.create_connection((host, port), 2).close()
        failures = 0
    except OSError:
        failures += 1
    time.sleep(1)
"""


@dataclass(frozen=True)
class ShutdownTimes:
    """All in whole seconds, as Kubernetes wants them."""

    settle_seconds: int
    gate_deadline_seconds: int
    stock_wait_seconds: int
    engine_timeout_seconds: int
    grace_seconds: int

    def pre_stop_script(self) -> str:
        return (
            "if command -v tandem-worker >/dev/null; "
            f"then exec tandem-worker close --settle {self.settle_seconds} --deadline {self.gate_deadline_seconds}; "
            f"else sleep {self.stock_wait_seconds}; fi"
        )

    def outlive(self, leader_address: str) -> list[str]:
        """preStop of a follower: the streams are the leader's, and they end when a rank does. It waits for its end."""
        seconds = max(1, self.grace_seconds - 2 * MARGIN_SECONDS)
        return ["python3", "-c", _OUTLIVE, leader_address, str(names.ENGINE_PORT), str(seconds)]


def shutdown_times(deadline_seconds: float, *, user_grace_seconds: int | None = None) -> ShutdownTimes:
    """Times from spec.drain.deadline, or squeezed into the grace period of the user's own template."""
    if user_grace_seconds is None:
        deadline = max(1, math.ceil(deadline_seconds))
        pre_stop = max(SETTLE_SECONDS + deadline, STOCK_IMAGE_WAIT_SECONDS)
        grace = pre_stop + deadline + 6 * MARGIN_SECONDS
        return ShutdownTimes(SETTLE_SECONDS, deadline, STOCK_IMAGE_WAIT_SECONDS, deadline, grace)
    usable = max(2, user_grace_seconds - MARGIN_SECONDS)
    settle = min(SETTLE_SECONDS, usable // 4)
    gate = max(1, min(math.ceil(deadline_seconds), usable // 2 - settle))
    stock = min(STOCK_IMAGE_WAIT_SECONDS, usable // 2)
    engine = max(1, usable - max(settle + gate, stock) - 1)
    return ShutdownTimes(settle, gate, stock, engine, user_grace_seconds)
