"""Successive snapshots of a service -> rates per role over any window up to five minutes.

Each pod's rate is made first and then summed, so that a restart of one pod is not a fall of the sum. Pods that
came or went within the window count for the part of it in which they worked: otherwise a scale-up would show as
more demand (old pods' past rate plus the new pod's present one) and order still more.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tandem_api import names
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.layout import Histograms, Layout, Vector, sound
from tandem_autoscaler.signals.source import Snapshot
from tandem_autoscaler.signals.track import KEEP_SECONDS, Step, Track

# A reading older than this says nothing about the present. More than twice the usual scrape interval of 15 s.
FRESH_SECONDS = 45.0


@dataclass(frozen=True)
class Rates:
    """Per-second rates of one role. `seconds` is the time that they truly cover."""

    seconds: float
    counters: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    pods: int = 0

    def rate(self, signal: str) -> float | None:
        """Per second, never negative; None when no pod had the signal."""
        value = self.counters.get(signal)
        return None if value is None else max(0.0, value)

    def histogram(self, *signals: str) -> Histogram | None:
        """The first of these that is there, with counts per second."""
        for signal in signals:
            found = self.histograms.get(signal)
            if found is not None:
                return found
        return None


@dataclass(frozen=True)
class History:
    """All that is remembered of one service's readings. A value: `advance` makes a new one.

    Tracks stand in the order of their uids, so that sums, and what is learnt worker by worker, do not depend on the
    order in which pods are listed.
    """

    began_at_seconds: float
    now_seconds: float
    tracks: Mapping[str, Track] = field(default_factory=dict)
    # When each pod was first listed; None: it was there before we were, so its counters' past is unknown.
    listed_at_seconds: Mapping[str, float | None] = field(default_factory=dict)
    ticks: int = 0
    # The same rates, steps and tracks of a role are asked for by several rules within a tick.
    _made: dict[tuple[str, float, frozenset[str]], Rates] = field(
        default_factory=dict, compare=False, repr=False
    )
    _steps: dict[str, tuple[tuple[Track, Step], ...]] = field(default_factory=dict, compare=False, repr=False)
    _by_role: dict[str, list[Track]] = field(default_factory=dict, compare=False, repr=False)

    def advance(self, service: Service, snapshot: Snapshot) -> "History":
        """With one more snapshot. Time that does not advance changes nothing."""
        now = snapshot.taken_at_seconds
        if now < self.now_seconds:
            return self
        roles = {pod.uid: pod.role for pod in (*service.pods, *service.routers)}
        tracks: dict[str, Track] = {}
        for uid, track in self.tracks.items():
            if uid not in roles and not track.departed:
                track = replace(track, departed=True)
            if now - track.seen_at_seconds <= KEEP_SECONDS:
                tracks[uid] = track
        # A pod that was not there at the last tick came to be since then, so its counters began at zero then.
        first = self.now_seconds if self.ticks else None
        listed = {uid: self.listed_at_seconds.get(uid, first) for uid in roles}
        known = len(tracks)
        for uid, role in roles.items():
            reading = snapshot.pods.get(uid)
            if reading is None:
                continue
            before = tracks.get(uid)
            if before is not None and before.role == role:
                tracks[uid] = before.extended(reading, now)
            elif not (reading := sound(reading)).empty:
                if before is not None:
                    # A worker that changed its role leaves its past in the old one.
                    tracks[f"{uid} as {before.role}"] = replace(before, departed=True)
                born = listed[uid] if before is None else None
                tracks[uid] = Track.begin(reading, role, now, born_at_seconds=born)
        if len(tracks) > known:
            tracks = dict(sorted(tracks.items()))
        return History(self.began_at_seconds, now, tracks, listed, self.ticks + 1)

    def of_role(self, role: str) -> list[Track]:
        """The role's tracks, departed ones included."""
        if not self._by_role:
            for track in self.tracks.values():
                self._by_role.setdefault(track.role, []).append(track)
        return self._by_role.get(role, [])

    def rates(self, role: str, window_seconds: float, *, without: frozenset[str] = frozenset()) -> Rates:
        """Rates of the role's pods over the window that ends now, except those of these uids."""
        made = self._made.get((role, window_seconds, without))
        if made is None:
            made = self._rates(role, window_seconds, without)
            self._made[(role, window_seconds, without)] = made
        return made

    def _rates(self, role: str, window_seconds: float, without: frozenset[str]) -> Rates:
        begin = self.now_seconds - window_seconds
        covered = min(window_seconds, max(self.now_seconds - self.began_at_seconds, 0.0))
        grown: dict[int, tuple[Layout, Vector]] = {}  # per second, by the layout's identity
        pods, longest = 0, 0.0
        for track in self.of_role(role):
            worked = None if track.uid in without else self._worked(track, begin, covered)
            if worked is None:
                continue
            start, span = worked
            pods += not track.departed
            longest = max(longest, span)
            change = track.points[-1] - track.points[start]
            change *= 1.0 / span
            _, before = grown.setdefault(id(track.layout), (track.layout, change))
            if before is not change:
                before += change
        counters: dict[str, float] = {}
        for layout, change in grown.values():
            values = layout.values(change)
            counters = (
                {name: counters.get(name, 0.0) + values.get(name, 0.0) for name in (counters | values)}
                if counters
                else values
            )
        return Rates(min(covered, longest) if longest else 0.0, counters, Histograms(*grown.values()), pods)

    def _worked(self, track: Track, begin: float, covered: float) -> tuple[int, float] | None:
        """(index of the first point, seconds that count) of a pod in the window; None when it tells nothing."""
        if len(track.times) < 2:
            return None
        if not track.departed and self.now_seconds - track.seen_at_seconds > FRESH_SECONDS:
            return None
        times = track.times
        end = times[-1]
        # From the last point at or before `begin`, else the first one. At least the last step, however old: a point
        # before the last one, by its place and not by its time, of which a float of today's seconds keeps no more than
        # 2e-7.
        index = min(max(0, bisect_right(times, begin) - 1), len(times) - 2)
        start = times[index]
        if track.departed:
            return (index, max(self.now_seconds - start, 1e-3)) if end > begin else None
        if index == 0 and track.born and start > begin:
            return index, max(covered, end - start)
        return index, end - start

    def steps(self, role: str) -> tuple[tuple[Track, Step], ...]:
        """What each pod did since its last reading, for those that were read at this tick."""
        made = self._steps.get(role)
        if made is None:
            made = self._steps[role] = tuple(self._taken(role))
        return made

    def _taken(self, role: str) -> Iterator[tuple[Track, Step]]:
        for track in self.of_role(role):
            if not track.departed and track.seen_at_seconds == self.now_seconds:
                step = track.last_step()
                if step is not None and not (track.born and len(track.times) == 2):
                    yield track, step

    def gauge(self, role: str, signal: str) -> tuple[float, ...]:
        """The latest values of a gauge, one per pod that was read within `FRESH_SECONDS`."""
        return tuple([
            track.reading.gauges[signal]
            for track in self.of_role(role)
            if not track.departed and signal in track.reading.gauges
            and self.now_seconds - track.seen_at_seconds <= FRESH_SECONDS
        ])  # fmt: skip

    def total(self, role: str, signal: str) -> float | None:
        """Sum of a gauge over the role's pods; None when no pod has it."""
        values = self.gauge(role, signal)
        return sum(values) if values else None

    def unserved_since_last(self) -> float:
        """Requests that the router turned away for want of a worker since its last reading."""
        return sum(
            max(0.0, step.counters.get("router_unserved_total", 0.0))
            for _, step in self.steps(names.COMPONENT_ROUTER)
        )


def begin(now_seconds: float) -> History:
    """A history that knows nothing yet."""
    return History(began_at_seconds=now_seconds, now_seconds=now_seconds)
