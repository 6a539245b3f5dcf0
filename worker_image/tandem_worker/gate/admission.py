"""The seam where a request asks "may I go in".

Today every request may. A queue that knows the targets (late demotion) takes this place later: it may hold
a request back in `enter` for as long as it likes (the gate counts it as in flight and ends it at the
deadline), or refuse it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tandem_worker.gate.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as the gate saw it come: `at_seconds` on the gate's monotonic clock."""

    path: str
    at_seconds: float
    headers: Sequence[tuple[bytes, bytes]] = field(repr=False)


class Admission(Protocol):
    """Lets requests in, in the order it likes."""

    async def enter(self, arrival: Arrival) -> Refusal | None:
        """Return None when the request may go in now, or the refusal that its client gets."""
        ...

    def leave(self, arrival: Arrival) -> None:
        """The request that `enter` let in has ended, however it did."""
        ...


class EveryoneMayEnter:
    """No queue: the engine's own decides."""

    async def enter(self, arrival: Arrival) -> Refusal | None:
        return None

    def leave(self, arrival: Arrival) -> None:
        return None
