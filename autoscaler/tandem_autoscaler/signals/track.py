"""One pod's readings over time, with counter resets taken out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading

# Points are kept this long, and beyond `_FINE_SECONDS` only every `_COARSE_SECONDS`: the long windows need no more.
KEEP_SECONDS = 330.0
_FINE_SECONDS = 75.0
_COARSE_SECONDS = 15.0


@dataclass(frozen=True)
class Point:
    """Cumulative values since the track began, never falling except `arrivals_total` by a request or two."""

    at_seconds: float
    counters: Mapping[str, float]
    histograms: Mapping[str, Histogram]


@dataclass(frozen=True)
class Step:
    """What happened between two readings of one pod."""

    uid: str
    seconds: float
    counters: Mapping[str, float]
    histograms: Mapping[str, Histogram]
    gauges: Mapping[str, float]


@dataclass(frozen=True)
class Track:
    """Successive points of one pod, oldest first.

    `seen_at_seconds` is when *we* saw the reading change: staleness is judged by it, because the clocks of
    machines may differ by minutes. `born` says that the first point is the pod's own beginning, at zero.
    """

    uid: str
    role: str
    reading: PodReading
    seen_at_seconds: float
    points: tuple[Point, ...]
    born: bool = False
    departed: bool = False

    @staticmethod
    def begin(
        reading: PodReading, role: str, now_seconds: float, *, born_at_seconds: float | None
    ) -> "Track":
        """A pod's first reading.

        Its counters hold an unknown past, so one point says nothing yet (a new series loses its first
        increment), unless we know when the pod came to be: then they began at zero at that moment.
        """
        counters, histograms = _with_arrivals(reading), dict(reading.histograms)
        zero = Point(reading.read_at_seconds, dict.fromkeys(counters, 0.0), {})
        if born_at_seconds is not None and born_at_seconds < reading.read_at_seconds:
            empty = {name: histogram.scaled(0.0) for name, histogram in histograms.items()}
            first = Point(born_at_seconds, zero.counters, empty)
            points = (first, Point(reading.read_at_seconds, counters, histograms))
            return Track(reading.uid, role, reading, now_seconds, points, born=True)
        empty = {name: histogram.scaled(0.0) for name, histogram in histograms.items()}
        return Track(reading.uid, role, reading, now_seconds, (replace(zero, histograms=empty),))

    def extended(self, reading: PodReading, role: str, now_seconds: float) -> "Track":
        """With one more reading; unchanged when it is not a newer one."""
        if reading.read_at_seconds == self.reading.read_at_seconds:
            return self if self.role == role else replace(self, role=role)
        if reading.read_at_seconds < self.reading.read_at_seconds:
            # A clock was set back. Begin again rather than compute with negative time.
            return Track.begin(reading, role, now_seconds, born_at_seconds=None)
        last = self.points[-1]
        counters, histograms = dict(last.counters), dict(last.histograms)
        before, after = _with_arrivals(self.reading), _with_arrivals(reading)
        reset = any(after[name] < before.get(name, 0.0) for name in after if name != "arrivals_total")
        for name, value in after.items():
            # After a restart all that it holds is new; a series seen for the first time is of unknown age.
            change = value if reset else value - before.get(name, value)
            counters[name] = counters.get(name, 0.0) + change
        for name, histogram in reading.histograms.items():
            earlier = self.reading.histograms.get(name)
            grown = histogram.since(earlier) if earlier is not None else None
            base = histograms.get(name)
            if grown is None or base is None or base.edges != histogram.edges:
                histograms[name] = histogram.scaled(0.0)
            else:
                histograms[name] = base.plus(grown)
        point = Point(reading.read_at_seconds, counters, histograms)
        return replace(
            self,
            role=role,
            reading=reading,
            seen_at_seconds=now_seconds,
            points=_thinned((*self.points, point)),
        )

    def start_of(self, begin_seconds: float) -> Point:
        """The last point at or before that time, else the first one."""
        chosen = self.points[0]
        for point in self.points[1:]:
            if point.at_seconds > begin_seconds:
                break
            chosen = point
        return chosen

    def last_step(self) -> Step | None:
        """Between the last two readings; None while there is one only."""
        if len(self.points) < 2:
            return None
        return step_between(self.points[-2], self.points[-1], self.reading)


def step_between(earlier: Point, later: Point, reading: PodReading) -> Step:
    """The difference of two points of one track."""
    counters = {name: value - earlier.counters.get(name, 0.0) for name, value in later.counters.items()}
    histograms = {}
    for name, histogram in later.histograms.items():
        before = earlier.histograms.get(name)
        # Other edges: the target changed in between, and what came before is not comparable.
        comparable = before is not None and before.edges == histogram.edges
        histograms[name] = histogram.minus(before) if before is not None and comparable else histogram
    return Step(reading.uid, later.at_seconds - earlier.at_seconds, counters, histograms, reading.gauges)


def _with_arrivals(reading: PodReading) -> dict[str, float]:
    """Counters plus `arrivals_total` = ended + in the system.

    By conservation its growth is what arrived, also while the pod is saturated; counts of finished requests
    alone stop at the capacity.
    """
    counters = dict(reading.counters)
    gauges = reading.gauges
    if "gate_requests_total" in counters and "gate_in_flight" in gauges:
        counters["arrivals_total"] = counters["gate_requests_total"] + gauges["gate_in_flight"]
    elif "finished_total" in counters and "running" in gauges:
        counters["arrivals_total"] = (
            counters["finished_total"] + gauges["running"] + gauges.get("waiting", 0.0)
        )
    elif "ttft" in reading.histograms:
        counters["arrivals_total"] = reading.histograms["ttft"].count + gauges.get("waiting", 0.0)
    return counters


def _thinned(points: tuple[Point, ...]) -> tuple[Point, ...]:
    newest = points[-1].at_seconds
    kept: list[Point] = []
    for point in points:
        age = newest - point.at_seconds
        if age > KEEP_SECONDS:
            continue
        if age > _FINE_SECONDS and kept and point.at_seconds - kept[-1].at_seconds < _COARSE_SECONDS:
            continue
        kept.append(point)
    return tuple(kept)
