"""Recent samples of one quantity and their weighted quantiles.

A median, because a single pod that stalls for a kernel compile or a page of swap must not move the fleet: half of
the weight has to agree before the value moves. It still follows a true change within half of what is remembered.
"""

from dataclasses import dataclass

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

    def plus(self, at_seconds: float, value: float, weight: float) -> "Samples":
        if weight <= 0 or not value > 0 or value == float("inf"):
            return self
        items = (*self.items, Sample(at_seconds, value, min(weight, _MOST_WEIGHT)))
        return Samples(tuple(s for s in items if at_seconds - s.at_seconds <= KEEP_SECONDS)[-KEPT:])

    @property
    def weight(self) -> float:
        return sum(sample.weight for sample in self.items)

    def quantile(self, q: float = 0.5) -> float | None:
        """The weighted quantile; None without samples."""
        ordered = sorted(self.items, key=lambda sample: sample.value)
        reach, running = q * self.weight, 0.0
        for sample in ordered:
            running += sample.weight
            if running >= reach:
                return sample.value
        return None
