"""What the loop decided over the last half hour. The loop hands over after each tick; nothing flows back.

It lives in memory and begins anew with the process, save for the changes that the service's own status remembers.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tandem_autoscaler.dashboard.seen import Seen, seen
from tandem_autoscaler.decide.decision import Decision, Kept
from tandem_autoscaler.decide.words import stored
from tandem_autoscaler.fleet.observe import epoch_seconds
from tandem_autoscaler.fleet.service import Key, Service
from tandem_autoscaler.loop import Entry

SPAN_SECONDS: Final = 1800.0
# The measured tails are those of a minute: more points would say nothing more.
STEP_SECONDS: Final = 15.0
_MOST_CHANGES: Final = 30


class Kind(StrEnum):
    """What became of a change that was decided."""

    DONE = "done"
    RECOMMENDED = "recommended"
    REFUSED = "refused"  # by the API server


@dataclass(frozen=True, slots=True)
class Point:
    """One moment. None: not measured. `replicas`: (ready, target) by role; no target without a pool."""

    at_seconds: float
    ttft_seconds: float | None
    tpot_seconds: float | None
    replicas: Mapping[str, tuple[int, int | None]]


@dataclass(frozen=True)
class Change:
    """A decision to change a pool. `at_seconds` None: the status does not tell."""

    at_seconds: float | None
    role: str
    before: int
    after: int
    reason: str
    message: str
    numbers: Mapping[str, str]
    kind: Kind


@dataclass
class Story:
    """One service. `changes`: the newest first."""

    now: Seen
    seen_at_seconds: float
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=int(SPAN_SECONDS / STEP_SECONDS) + 1))
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=_MOST_CHANGES))
    # The last decision told per role, so that one that stands is told once.
    told: dict[str, tuple[int, int]] = field(default_factory=dict)


class Trail:
    """`see` is given to the loop; `stories` and the rest are for the page."""

    def __init__(self) -> None:
        self.stories: dict[Key, Story] = {}
        self.broken: dict[Key, str] = {}
        self.ticked_at_seconds: float | None = None

    def see(self, entries: Mapping[Key, Entry], broken: Mapping[Key, str], at_seconds: float) -> None:
        """Take over what the tick at `at_seconds` left. Services that are gone leave nothing."""
        self.stories = {key: self._story(key, entry, at_seconds) for key, entry in entries.items()}
        self.broken, self.ticked_at_seconds = dict(broken), at_seconds

    def _story(self, key: Key, entry: Entry, at_seconds: float) -> Story:
        now, story = seen(entry), self.stories.get(key)
        if story is None or story.now.service.uid != now.service.uid:
            story = Story(now, at_seconds)
            story.changes.extend(_remembered(now.service))
        story.now = now
        if now.snapshot is not None:
            # A service whose own tick failed keeps its last snapshot: it shows its age, and has no new point.
            story.seen_at_seconds = now.snapshot.taken_at_seconds
            if not story.points or story.seen_at_seconds - story.points[-1].at_seconds >= STEP_SECONDS * 0.9:
                story.points.append(_point(now, story.seen_at_seconds))
        for role, decision in now.outcome.decisions.items():
            pair = (decision.current, decision.target)
            if decision.changes and story.told.get(role) != pair:
                story.changes.appendleft(_change(decision, at_seconds, _kind(now)))
            story.told[role] = pair
        return story


def _point(now: Seen, at_seconds: float) -> Point:
    replicas = {role: (counted.ready, now.target(role)) for role, counted in now.counts.items()}
    return Point(at_seconds, _tail(now.outcome.ttft), _tail(now.outcome.tpot), replicas)


def _tail(kept: Kept | None) -> float | None:
    return None if kept is None else kept.tail_seconds


def _kind(now: Seen) -> Kind:
    if now.service.mode == "Recommend":
        return Kind.RECOMMENDED
    return Kind.DONE if now.write_failed is None else Kind.REFUSED


def _change(decision: Decision, at_seconds: float, kind: Kind) -> Change:
    return Change(
        at_seconds, decision.role, decision.current, decision.target, decision.why.value, decision.message,
        stored(decision.numbers), kind,
    )  # fmt: skip


def _remembered(service: Service) -> list[Change]:
    """The changes of before the process began, as the status has them. What is malformed is left out."""
    scaling = service.status.get("autoscaling")
    history = scaling.get("history") if isinstance(scaling, Mapping) else None
    kind = Kind.RECOMMENDED if service.mode == "Recommend" else Kind.DONE
    return [
        Change(
            epoch_seconds(str(item.get("at") or "")), str(item.get("role", "")), int(item["from"]), int(item["to"]),
            str(item.get("reason", "")), str(item.get("message", "")), _texts(item.get("numbers")), kind,
        )
        for item in (history if isinstance(history, list) else [])
        if isinstance(item, Mapping) and isinstance(item.get("from"), int) and isinstance(item.get("to"), int)
    ]  # fmt: skip


def _texts(numbers: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in numbers.items()} if isinstance(numbers, Mapping) else {}
