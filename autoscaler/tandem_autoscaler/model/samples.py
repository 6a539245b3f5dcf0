"""Recent samples of one quantity and their weighted quantiles.

A median, because a single pod that stalls for a kernel compile or a page of swap must not move the fleet: half of
the weight has to agree before the value moves. It still follows a true change within half of what is remembered.
"""

from dataclasses import dataclass, field

# Samples are those of single ticks, so this is some minutes' worth.
KEPT = 48
KEEP_SECONDS = 600.0
# Against one tick with a flood of requests outweighing all others.
_MOST_WEIGHT = 20.0


@dataclass(frozen=True)
class Sample:
    at_seconds: float
    value: float
    weight: float


@dataclass(frozen=True)
class Samples:
    """Newest last."""

    items: tuple[Sample, ...] = ()
    # Several rules ask for the same one within a tick.
    _quantiles: dict[float, float | None] = field(default_factory=dict, compare=False, repr=False)

    def plus(self, at_seconds: float, value: float, weight: float) -> "Samples":
        if weight <= 0 or not value > 0 or value == float("inf"):
            return self
        items = (*self.items, Sample(at_seconds, value, min(weight, _MOST_WEIGHT)))
        first = max(0, len(items) - KEPT)
        while at_seconds - items[first].at_seconds > KEEP_SECONDS:
            first += 1
        return Samples(items[first:])

    @property
    def weight(self) -> float:
        return sum([sample.weight for sample in self.items])

    def quantile(self, q: float = 0.5) -> float | None:
        """The weighted quantile; None without samples."""
        if q not in self._quantiles:
            self._quantiles[q] = self._quantile(q)
        return self._quantiles[q]

    def _quantile(self, q: float) -> float | None:
        reach, running = q * self.weight, 0.0
        for value, weight in sorted([(sample.value, sample.weight) for sample in self.items]):
            running += weight
            if running >= reach:
                return value
        return None
