"""Are a role's measurements good enough to act on?"""

from dataclasses import dataclass

from tandem_autoscaler.decide.decision import Quality
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import RoleMemory
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.source import Snapshot
from tandem_autoscaler.signals.window import History


@dataclass(frozen=True)
class RoleCount:
    """Workers of a role, and how many of the ready ones were heard."""

    ready: int
    starting: int
    stuck: int
    draining: int
    heard: int  # ready ones that answered with series we know
    unmatched: int  # ready ones that answered without any
    failed: int  # were ready once, exist and are not ready now

    @property
    def coverage(self) -> float:
        return self.heard / self.ready if self.ready else 0.0


def count(service: Service, role: str, snapshot: Snapshot, history: History) -> RoleCount:
    """Count the role's pods. Each pod falls into one of ready, starting and draining."""
    ready = starting = stuck = draining = heard = unmatched = failed = 0
    for pod in service.workers(role):
        if pod.draining:
            draining += 1
        elif pod.ready:
            ready += 1
            reading = snapshot.pods.get(pod.uid)
            track = history.tracks.get(pod.uid)
            if reading is not None and reading.empty:
                unmatched += 1
            elif reading is not None and track is not None:
                # Present, and we saw it change lately: a source may go on showing an old reading.
                heard += history.now_seconds - track.seen_at_seconds <= 45.0
        else:
            starting += 1
            stuck += pod.stuck
            failed += pod.uid in history.tracks and not pod.stuck and _was_at_work(history, pod.uid)
    return RoleCount(ready, starting, stuck, draining, heard, unmatched, failed)


def _was_at_work(history: History, uid: str) -> bool:
    """True when the pod has served: then it is not starting, it has become unready."""
    counters = history.tracks[uid].reading.counters
    return counters.get("finished_total", 0.0) > 0 or counters.get("gate_requests_total", 0.0) > 0


def quality(counted: RoleCount, memory: RoleMemory, now_seconds: float, settings: Settings) -> Quality:
    """FRESH, PARTIAL, STALE, BLIND, or EMPTY when no worker is ready.

    `memory.heard_at_seconds` is when the coverage last sufficed. An age is never negative (clock skew).
    """
    if counted.ready == 0:
        return Quality.EMPTY
    if counted.coverage >= settings.coverage:
        return Quality.FRESH
    if counted.heard > 0:
        return Quality.PARTIAL
    if memory.heard_at_seconds is None:
        return Quality.BLIND
    age = max(0.0, now_seconds - memory.heard_at_seconds)
    return Quality.BLIND if age > settings.blind_seconds else Quality.STALE
