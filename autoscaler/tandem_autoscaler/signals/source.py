"""The port to measurements, and the values that pass it.

Everything is as the engine has it: cumulative counters, not rates; None where nothing is known. Rates are made in
`window.py`, per pod, because a restart of one pod must not show as a fall of the sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tandem_autoscaler.fleet.service import Key, Service
from tandem_autoscaler.signals.histogram import Histogram


@dataclass(frozen=True)
class PodReading:
    """What one pod exported at `read_at_seconds` (our clock when scraped, Prometheus' when asked there).

    `counters`, `gauges` and `histograms` hold only what was present, by the names of `metric_names`.
    """

    uid: str
    read_at_seconds: float
    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """It answered, but with none of the series that we know."""
        return not (self.counters or self.gauges or self.histograms)


@dataclass(frozen=True)
class Snapshot:
    """One service at one moment: the pods that answered, and for the others why not."""

    taken_at_seconds: float
    pods: Mapping[str, PodReading] = field(default_factory=dict)  # by uid, routers included
    silent: Mapping[str, str] = field(default_factory=dict)  # uid -> why
    error: str | None = None  # the source as a whole failed; the sentence names the address


class SignalSource(Protocol):
    """Where readings come from."""

    async def sample(self, services: Sequence[Service], now_seconds: float) -> dict[Key, Snapshot]:
        """A snapshot of each service, within the adapter's own deadline. Never raises for a fault of the source."""

    async def close(self) -> None:
        """Give up connections."""
