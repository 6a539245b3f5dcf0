"""What a policy is to the simulator."""

from dataclasses import dataclass
from typing import Protocol

from tandem_autoscaler.simulator.fleet import Fleet


@dataclass(frozen=True)
class Targets:
    """Replicas per role; None: leave it."""

    prefill: int | None = None
    decode: int | None = None


class Policy(Protocol):
    """Called every `tick_seconds` of simulated time. It reads `fleet.view()` (ours reads `readings`).

    While measurements are silent it is not called and its targets stand, unless it has `works_blind = True`.
    """

    @property
    def name(self) -> str: ...

    @property
    def tick_seconds(self) -> float: ...

    def step(self, fleet: Fleet) -> Targets: ...
