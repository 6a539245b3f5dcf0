"""Targets written down beforehand: what someone who knows the trace would order."""

from collections.abc import Sequence

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Targets

SLOT_SECONDS = 15.0


class Schedule:
    """`prefill[k]` and `decode[k]` workers present during the k-th slot of 15 s, ordered one cold start ahead.

    A worker that is needed again within a cold start is kept: an order is the most of all slots until then.
    """

    tick_seconds = SLOT_SECONDS

    def __init__(
        self, prefill: Sequence[int], decode: Sequence[int], cold_start_seconds: float, name: str = "schedule"
    ) -> None:
        self.name = name
        self._prefill, self._decode = prefill, decode
        self._ahead_seconds = cold_start_seconds

    def step(self, fleet: Fleet) -> Targets:
        return Targets(*self.at(fleet.now_seconds))

    def at(self, now_seconds: float) -> tuple[int, int]:
        """(prefill, decode) to be ordered now."""
        first = int(now_seconds // SLOT_SECONDS)
        # Ticks are a slot apart, so the order also covers the slots that begin before the next one.
        last = int((now_seconds + self._ahead_seconds + SLOT_SECONDS - 1e-6) // SLOT_SECONDS)
        return _most(self._prefill, first, last), _most(self._decode, first, last)


def _most(slots: Sequence[int], first: int, last: int) -> int:
    """Beyond the end the last slot goes on."""
    last = min(last, len(slots) - 1)
    return int(max(slots[min(first, last) : last + 1]))
