"""One pod's cumulative values as a vector, so that a difference of two readings is one subtraction.

A worker exports some 250 numbers and a fleet has thousands of workers: differences value by value, in dictionaries,
took ten times as long and four times the memory. Engines of one version and one set of targets share a layout.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading

Vector = NDArray[np.float64]

ARRIVALS = "arrivals_total"


@dataclass(frozen=True)
class Layout:
    """Where each value stands: counters, all buckets, each histogram's sum, arrivals.

    `rising` values never fall unless the pod has restarted. Sums of observations and arrivals may, by rounding and
    because the two parts of `arrivals_total` are not read at one instant.
    """

    counters: tuple[str, ...]
    histograms: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]
    arrivals: bool

    @cached_property
    def buckets(self) -> dict[str, slice]:
        """Of each histogram."""
        found, at = {}, len(self.counters)
        for name, edges in zip(self.histograms, self.edges, strict=True):
            found[name] = slice(at, at + len(edges))
            at += len(edges)
        return found

    @cached_property
    def _places(self) -> dict[str, tuple[tuple[float, ...], slice, int]]:
        """(edges, where the buckets stand, where the sum stands) of each histogram."""
        return {
            name: (edges, buckets, self.sums.start + number)
            for number, (edges, (name, buckets)) in enumerate(
                zip(self.edges, self.buckets.items(), strict=True)
            )
        }

    @cached_property
    def rising(self) -> slice:
        return slice(0, len(self.counters) + sum(map(len, self.edges)))

    @cached_property
    def sums(self) -> slice:
        return slice(self.rising.stop, self.rising.stop + len(self.histograms))

    @cached_property
    def size(self) -> int:
        return self.sums.stop + self.arrivals

    @cached_property
    def _packed(self) -> Struct:
        return Struct(f"{self.size}d")

    def fits(self, reading: PodReading) -> bool:
        """Has the reading just these signals, on these edges?"""
        return (
            tuple(reading.counters) == self.counters
            and _shape(reading.histograms) == (self.histograms, self.edges)
            and (arrivals_total(reading) is not None) == self.arrivals
        )

    def vector(self, reading: PodReading) -> Vector:
        """The values of a reading that fits."""
        counters, histograms = list(reading.counters.values()), reading.histograms
        arrivals = arrivals_total(reading)
        last = [] if arrivals is None else [arrivals]
        if isinstance(histograms, Histograms) and len(histograms.parts) == 1:
            layout, values = histograms.parts[0]
            return np.concatenate(
                (np.array(counters), values[len(layout.counters) : layout.sums.stop], np.array(last))
            )
        for histogram in histograms.values():
            counters += histogram.counts
        sums = [histogram.total for histogram in histograms.values()]
        # A third of the time of np.array.
        return np.frombuffer(self._packed.pack(*counters, *sums, *last))

    def values(self, vector: Vector) -> dict[str, float]:
        """The counters, `arrivals_total` among them."""
        found = dict(zip(self.counters, vector[: len(self.counters)].tolist(), strict=True))
        if self.arrivals:
            found[ARRIVALS] = vector.item(-1)
        return found

    def histogram(self, vector: Vector, name: str) -> Histogram:
        """One histogram. Raises KeyError when the layout has none of that name."""
        edges, buckets, total = self._places[name]
        return Histogram(edges, tuple(vector[buckets].tolist()), vector.item(total))

    def joined(self, other: "Layout") -> "Layout":
        """The signals of both, with `other`'s edges where they differ."""
        edges = {
            **dict(zip(self.histograms, self.edges, strict=True)),
            **dict(zip(other.histograms, other.edges, strict=True)),
        }
        counters = tuple(dict.fromkeys((*self.counters, *other.counters)))
        return layout(counters, tuple(edges), tuple(edges.values()), self.arrivals or other.arrivals)

    def moved(self, vector: Vector, source: "Layout", *, absent: float) -> Vector:
        """`vector`, laid out as `source`, in this layout; `absent` for signals that it has not on these edges."""
        moved = np.full(self.size, absent)
        for number, name in enumerate(self.counters):
            if name in source.counters:
                moved[number] = vector[source.counters.index(name)]
        for number, name in enumerate(self.histograms):
            if name not in source.buckets:
                continue
            before = source.histograms.index(name)
            if source.edges[before] == self.edges[number]:
                moved[self.buckets[name]] = vector[source.buckets[name]]
                moved[self.sums.start + number] = vector[source.sums.start + before]
        if self.arrivals and source.arrivals:
            moved[-1] = vector[-1]
        return moved


@lru_cache(maxsize=1024)
def layout(
    counters: tuple[str, ...], histograms: tuple[str, ...], edges: tuple[tuple[float, ...], ...], arrivals: bool
) -> Layout:  # fmt: skip
    """The layout, the same object for the same arguments."""
    return Layout(counters, histograms, edges, arrivals)


def layout_of(reading: PodReading) -> Layout:
    """The layout that the reading fits."""
    return layout(tuple(reading.counters), *_shape(reading.histograms), arrivals_total(reading) is not None)


def _shape(histograms: Mapping[str, Histogram]) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
    """(names, edges)."""
    if isinstance(histograms, Histograms) and len(histograms.parts) == 1:
        return histograms.parts[0][0].histograms, histograms.parts[0][0].edges
    return tuple(histograms), tuple([histogram.edges for histogram in histograms.values()])


def all_sound(values: Iterable[float]) -> bool:
    """True when none is negative, infinite or no number."""
    found = list(values)
    # A sum is finite only when all are.
    return not found or (min(found) >= 0.0 and sum(found) < math.inf)


def sound(reading: PodReading) -> PodReading:
    """Without what no engine can mean: values that are negative or no numbers. Itself when there are none."""
    counters = {name: value for name, value in reading.counters.items() if 0 <= value < math.inf}
    gauges = {name: value for name, value in reading.gauges.items() if 0 <= value < math.inf}
    histograms: Mapping[str, Histogram] = reading.histograms
    if not isinstance(histograms, Histograms) or not histograms.sound:
        histograms = {name: found for name, found in histograms.items() if _is_sound(found)}
    kept = len(counters) + len(gauges) + len(histograms)
    if kept == len(reading.counters) + len(reading.gauges) + len(reading.histograms):
        return reading
    return replace(reading, counters=counters, gauges=gauges, histograms=histograms)


def _is_sound(histogram: Histogram) -> bool:
    return math.isfinite(histogram.total) and all_sound(histogram.counts)


def arrivals_total(reading: PodReading) -> float | None:
    """Requests ended + those in the system; None when the pod tells neither.

    By conservation its growth is what arrived, also while the pod is saturated; counts of finished requests
    alone stop at the capacity.
    """
    counters, gauges = reading.counters, reading.gauges
    if "gate_requests_total" in counters and "gate_in_flight" in gauges:
        return counters["gate_requests_total"] + gauges["gate_in_flight"]
    if "finished_total" in counters and "running" in gauges:
        return counters["finished_total"] + gauges["running"] + gauges.get("waiting", 0.0)
    if "ttft" in reading.histograms:
        return reading.histograms["ttft"].count + gauges.get("waiting", 0.0)
    return None


class Histograms(Mapping[str, Histogram]):
    """The histograms in one or several vectors, added up; each is made when it is first asked for.

    A rule asks for two or three of a dozen. A source that has a worker's buckets in an array anyway may give them so,
    with a layout of histograms alone: `Histograms((layout((), names, edges, False), buckets_then_sums))`.
    """

    def __init__(self, *parts: tuple[Layout, Vector]) -> None:
        self.parts = parts
        self._made: dict[str, Histogram] = {}

    @property
    def sound(self) -> bool:
        """True when no bucket is negative and every value is a number."""
        return all(
            bool(np.isfinite(vector).all() and (vector[layout.rising] >= 0).all())
            for layout, vector in self.parts
        )

    def __getitem__(self, name: str) -> Histogram:
        made = self.get(name)
        if made is None:
            raise KeyError(name)
        return made

    def get(self, name: str, default: Any = None) -> Any:
        """The histogram, or `default`. Absent ones are asked for as often as others, so nothing is raised here."""
        made = self._made.get(name)
        if made is None:
            for layout, vector in self.parts:
                if name in layout.buckets:
                    part = layout.histogram(vector, name)
                    made = part if made is None else made.plus(part)
            if made is None:
                return default
            self._made[name] = made
        return made

    def __contains__(self, name: object) -> bool:
        return any([name in layout.buckets for layout, _ in self.parts])

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layout, _ in self.parts for name in layout.histograms))

    def __len__(self) -> int:
        return len(dict.fromkeys(self))

    def __repr__(self) -> str:
        return f"Histograms({dict(self)!r})"
