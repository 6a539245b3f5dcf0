"""One pod's readings over time, with counter resets taken out."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.layout import Histograms, Layout, Vector, all_sound, layout_of, sound
from tandem_autoscaler.signals.source import PodReading

# Points are kept this long, and beyond `_FINE_SECONDS` only every `_COARSE_SECONDS`: the long windows need no more.
# At a tick of 5 s that is 33 points of 2 kB, 66 kB for a busy worker; one that does nothing keeps a single one.
KEEP_SECONDS = 330.0
_FINE_SECONDS = 75.0
_COARSE_SECONDS = 15.0


@dataclass(frozen=True)
class Step:
    """What happened between two readings of one pod."""

    uid: str
    seconds: float
    counters: Mapping[str, float]
    histograms: Mapping[str, Histogram]
    gauges: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Track:
    """Successive points of one pod, oldest first.

    A point is the vector of cumulative values since the track began; only the last element, arrivals, may fall, by a
    request or two. Points are shared between successive tracks and never written to.

    `seen_at_seconds` is when *we* saw the reading change: staleness is judged by it, because the clocks of
    machines may differ by minutes. `born` says that the first point is the pod's own beginning, at zero.
    """

    uid: str
    role: str
    reading: PodReading
    seen_at_seconds: float
    layout: Layout
    raw: Vector  # as the pod last told each value
    times: tuple[float, ...]  # seconds, ascending
    points: tuple[Vector, ...]
    born: bool = False
    departed: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Track) and (
            (self.uid, self.role, self.reading, self.seen_at_seconds, self.times, self.born, self.departed)
            == (other.uid, other.role, other.reading, other.seen_at_seconds, other.times, other.born, other.departed)
            and all(map(np.array_equal, (self.raw, *self.points), (other.raw, *other.points)))
        )  # fmt: skip

    @staticmethod
    def begin(
        reading: PodReading, role: str, now_seconds: float, *, born_at_seconds: float | None
    ) -> "Track":
        """A pod's first reading.

        Its counters hold an unknown past, so one point says nothing yet (a new series loses its first
        increment), unless we know when the pod came to be: then they began at zero at that moment.
        """
        layout = layout_of(reading)
        raw, at = layout.vector(reading), reading.read_at_seconds
        zero = np.zeros_like(raw)
        if born_at_seconds is not None and born_at_seconds < at:
            times, points = (born_at_seconds, at), (zero, raw)
            return Track(reading.uid, role, reading, now_seconds, layout, raw, times, points, born=True)
        return Track(reading.uid, role, reading, now_seconds, layout, raw, (at,), (zero,))

    def extended(self, reading: PodReading, now_seconds: float) -> "Track":
        """With one more reading; unchanged when it is not a newer one. Whoever is read has not departed."""
        if (
            reading.read_at_seconds > self.reading.read_at_seconds
            and self.layout.fits(reading)
            and all_sound(reading.gauges.values())
        ):
            raw = self.layout.vector(reading)
            change = raw - self.raw
            # The usual case: what rises from sound values to finite ones is sound.
            least = np.minimum.reduce(change[self.layout.rising], initial=0.0)
            if least >= 0.0 and math.isfinite(np.add.reduce(change)):
                return self._followed(raw, change, reading, now_seconds)
        reading = sound(reading)
        if reading.empty:
            return self
        if reading.read_at_seconds == self.reading.read_at_seconds:
            return replace(self, departed=False) if self.departed else self
        if reading.read_at_seconds < self.reading.read_at_seconds:
            # A clock was set back. Begin again rather than compute with negative time.
            return Track.begin(reading, self.role, now_seconds, born_at_seconds=None)
        told, wide = layout_of(reading), self._widened(reading)
        raw = wide.layout.moved(told.vector(reading), told, absent=np.nan)
        change, raw = _irregular(wide.layout, wide.raw, raw)
        return wide._followed(raw, change, reading, now_seconds)

    def _followed(self, raw: Vector, change: Vector, reading: PodReading, now_seconds: float) -> "Track":
        """`change` is this call's own."""
        sums = change[self.layout.sums]
        np.maximum(sums, 0.0, out=sums)
        point = self.points[-1] + change if np.count_nonzero(change) else self.points[-1]
        times, points = _thinned((*self.times, reading.read_at_seconds), (*self.points, point))
        return Track(
            self.uid, self.role, reading, now_seconds, self.layout, raw, times, points, self.born
        )  # fmt: skip

    def _widened(self, reading: PodReading) -> "Track":
        """With room for the reading's signals. What has no past on the same edges begins at zero."""
        layout = self.layout.joined(layout_of(reading))
        if layout == self.layout:
            return self
        return replace(
            self,
            layout=layout,
            raw=layout.moved(self.raw, self.layout, absent=np.nan),
            points=tuple(layout.moved(point, self.layout, absent=0.0) for point in self.points),
        )

    def last_step(self) -> Step | None:
        """Between the last two readings; None while there is one only."""
        if len(self.points) < 2:
            return None
        change = self.points[-1] - self.points[-2]
        return Step(
            self.uid, self.times[-1] - self.times[-2], self.layout.values(change),
            Histograms((self.layout, change)), self.reading.gauges,
        )  # fmt: skip


def _irregular(layout: Layout, before: Vector, now: Vector) -> tuple[Vector, Vector]:
    """(change, last known values) where the pod has restarted or a value is not told.

    After a restart all that a counter holds is new. A value told for the first time is of unknown age: no change.
    The engine's and the gate's counters go together; a histogram is judged by its own buckets.
    """
    change = now - before
    counters = slice(0, len(layout.counters))
    if (change[counters] < 0).any():
        change[counters] = now[counters]
        if layout.arrivals:
            change[-1] = now[-1]
    for number, buckets in enumerate(layout.buckets.values()):
        if (change[buckets] < 0).any():
            change[buckets] = now[buckets]
            change[layout.sums.start + number] = now[layout.sums.start + number]
    return np.nan_to_num(change, nan=0.0), np.where(np.isnan(now), before, now)


def _thinned(
    times: tuple[float, ...], points: tuple[Vector, ...]
) -> tuple[tuple[float, ...], tuple[Vector, ...]]:
    """Without what the newest of the points makes superfluous; all before it have been thinned already."""
    newest, before = times[-1], times[-2]
    oldest, fine = bisect_left(times, newest - KEEP_SECONDS), bisect_left(times, newest - _FINE_SECONDS)
    ageing = max(oldest, bisect_left(times, before - _FINE_SECONDS))
    if oldest == 0 and ageing == fine:
        return times, points
    kept_times, kept_points = times[oldest:ageing], points[oldest:ageing]
    for index in range(ageing, fine):
        if not kept_times or times[index] - kept_times[-1] >= _COARSE_SECONDS:
            kept_times, kept_points = (*kept_times, times[index]), (*kept_points, points[index])
    return kept_times + times[fine:], kept_points + points[fine:]
