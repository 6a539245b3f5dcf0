"""The GPU budget: never exceeded at any instant, draining and terminating workers included."""

from collections.abc import Collection
from dataclasses import dataclass

from tandem_operator.observe.observed import Observed


@dataclass(frozen=True)
class Budget:
    """`used` is None when a live worker's GPUs cannot be told: then nothing grows (field case B5)."""

    limit: int | None
    used: int | None

    def admits(self, gpus: int | None) -> bool:
        """May a worker with so many GPUs be added now?"""
        if self.limit is None:
            return True
        if gpus is None or self.used is None:
            return False
        return gpus == 0 or self.used + gpus <= self.limit

    def plus(self, gpus: int | None) -> "Budget":
        return Budget(self.limit, None if self.used is None or gpus is None else self.used + gpus)


def gpu_budget(observed: Observed) -> Budget:
    """The budget as it stands. A finished pod has given its GPUs back; a terminating one has not."""
    limit = observed.spec.gpu_budget if observed.spec is not None else None
    used: int | None = observed.leftover_gpus
    for pod in observed.pods:
        if pod.finished:
            continue
        if pod.gpus is None or used is None:
            used = None
            break
        used += pod.gpus
    return Budget(limit, used)


def lasting_budget(observed: Observed, *, leaving: Collection[str]) -> Budget:
    """The budget as it will stand when all that drains or ends is gone. `leaving`: names that will be let go now."""
    limit = observed.spec.gpu_budget if observed.spec is not None else None
    used: int | None = 0
    for pod in observed.pods:
        if pod.member and pod.name not in leaving:
            used = None if used is None or pod.gpus is None else used + pod.gpus
    return Budget(limit, used)
