"""What the page is told, as JSON. Pure. Times in seconds, shares between 0 and 1; null is not known, and never 0."""

import math
from collections.abc import Mapping
from typing import Any

from tandem_api.reasons import Condition, Reason
from tandem_autoscaler.dashboard.seen import Seen
from tandem_autoscaler.dashboard.trail import SPAN_SECONDS, Change, Kind, Story, Trail
from tandem_autoscaler.decide.decision import Kept, Verdict
from tandem_autoscaler.decide.words import stored
from tandem_autoscaler.meanings import explained

_GOOD, _BAD, _WARN, _QUIET = "good", "bad", "warn", "quiet"
# Conditions that are no good news when True.
_WARN_WHEN_TRUE = frozenset({Condition.SCALING_LIMITED})
# Reasons for an unknown or false condition that nobody needs to worry about.
_CALM = frozenset(
    {
        Reason.NO_TRAFFIC, Reason.WAITING_FOR_DATA, Reason.SCALING_OFF, Reason.SCALING_EXTERNAL, Reason.SCALING_PAUSED,
    }
)  # fmt: skip


def fleet(
    trail: Trail, *, leading: bool, now_seconds: float, tick_seconds: float, gpu_budget: int | None
) -> dict[str, Any]:
    """The page's frame: is it alive, and a row per service."""
    # Those in trouble come first: among a thousand nobody would find them.
    rows = [_row(story, now_seconds) for _, story in sorted(trail.stories.items())]
    rows.sort(key=lambda row: row["tone"] != _BAD)
    ticked = trail.ticked_at_seconds
    taken = [row["gpus"]["taken"] for row in rows]
    return {
        "state": "standby" if not leading else "starting" if ticked is None else "deciding",
        "nowSeconds": now_seconds,
        "tickSeconds": tick_seconds,
        "decidedAgeSeconds": None if ticked is None else max(0.0, now_seconds - ticked),
        "gpus": {"taken": None if None in taken else sum(taken), "budget": gpu_budget},
        "services": rows,
        "broken": [
            {"namespace": namespace, "name": name, "message": text}
            for (namespace, name), text in sorted(trail.broken.items())
        ],
    }


def service(story: Story, now_seconds: float) -> dict[str, Any]:
    """All that the page shows of one service."""
    now, points = story.now, list(story.points)
    outcome, source = now.outcome, now.snapshot
    pods = {pod.uid: pod.name for pod in (*now.service.pods, *now.service.routers)}
    return {
        **_row(story, now_seconds),
        "decisions": [
            {
                "role": role,
                **_move(decision.current, decision.target, decision.why.value, decision.message),
                "numbers": _numbers(stored(decision.numbers)),
            }
            for role, decision in outcome.decisions.items()
        ],
        "changes": [_change(change) for change in story.changes],
        "conditions": [
            {
                "type": str(kind), "status": verdict.status, "reason": verdict.reason.value,
                "message": verdict.message, "tone": _tone(str(kind), verdict),
            }
            for kind, verdict in sorted(outcome.conditions.items())
        ],
        "silent": [
            {"pod": pods.get(uid, uid), "why": why}
            for uid, why in sorted((source.silent if source is not None else {}).items())
        ],
        "writeFailed": now.write_failed,
        "history": {
            "spanSeconds": SPAN_SECONDS,
            "at": [point.at_seconds for point in points],
            "ttft": [_finite(point.ttft_seconds) for point in points],
            "tpot": [_finite(point.tpot_seconds) for point in points],
            "replicas": {
                role: {
                    "ready": [_part(point.replicas.get(role), 0) for point in points],
                    "target": [_part(point.replicas.get(role), 1) for point in points],
                }
                for role in now.counts
            },
        },
    }  # fmt: skip


def _row(story: Story, now_seconds: float) -> dict[str, Any]:
    now = story.now
    found = now.service
    word, tone = _word(now)
    return {
        "namespace": found.namespace,
        "name": found.name,
        "mode": "Paused" if found.paused else found.mode,
        "word": word,
        "tone": tone,
        "ageSeconds": max(0.0, now_seconds - story.seen_at_seconds),
        "percentile": None if found.targets is None else round(found.targets.quantile * 100, 3),
        "ttft": _kept(now.outcome.ttft),
        "tpot": _kept(now.outcome.tpot),
        "roles": [_role(now, role) for role in now.counts],
        "gpus": {"taken": _gpus(now), "budget": found.gpu_budget},
    }


def _word(now: Seen) -> tuple[str, str]:
    """The row's one word, and its colour: the worst thing first."""
    conditions = now.outcome.conditions
    if now.write_failed is not None:
        return "cannot scale", _BAD
    active, met = conditions.get(Condition.SCALING_ACTIVE), conditions.get(Condition.SLO_MET)
    if active is not None and active.status == "False" and active.reason not in _CALM:
        return "cannot decide", _BAD
    if met is None:
        return "no SLO", _QUIET
    if met.status == "True":
        return "SLO kept", _GOOD
    if met.status == "False":
        return "SLO missed", _BAD
    return ("no traffic" if met.reason is Reason.NO_TRAFFIC else "unknown"), _QUIET


def _tone(kind: str, verdict: Verdict) -> str:
    if verdict.reason in _CALM or verdict.status == "Unknown":
        return _QUIET
    if kind in _WARN_WHEN_TRUE:
        return _WARN if verdict.status == "True" else _GOOD
    return _GOOD if verdict.status == "True" else _BAD


def _role(now: Seen, role: str) -> dict[str, Any]:
    pool, counted = now.service.pools.get(role), now.counts[role]
    return {
        "role": role,
        "ready": counted.ready,
        "starting": counted.starting,
        "stuck": counted.stuck,
        "draining": counted.draining,
        "heard": counted.heard,
        "pool": pool and pool.replicas,
        "target": now.target(role),
        "minimum": pool and pool.minimum,
        "maximum": pool and pool.maximum,
        "gpus": now.gpus(role),
        "gpusEach": pool and pool.gpus,
    }


def _gpus(now: Seen) -> int | None:
    held = [now.gpus(role) for role in now.counts]
    return None if None in held else sum(gpus for gpus in held if gpus is not None)


def _kept(kept: Kept | None) -> dict[str, Any] | None:
    if kept is None:
        return None
    return {
        "targetSeconds": kept.target_seconds,
        "tailSeconds": _finite(kept.tail_seconds),
        "shareLeast": _share(kept.attainment),
        "shareMost": _share(kept.attainment_upper),
        "how": kept.how,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "atSeconds": change.at_seconds,
        "role": change.role,
        **_move(change.before, change.after, change.reason, change.message),
        "numbers": _numbers(change.numbers),
        "kind": change.kind.value if change.kind is not Kind.DONE else None,
    }


def _move(before: int, after: int, reason: str, message: str) -> dict[str, Any]:
    # The message repeats the move, which stands beside it.
    return {
        "from": before,
        "to": after,
        "reason": reason,
        "message": message.partition(": ")[2] or message,
    }


def _numbers(numbers: Mapping[str, str]) -> list[list[str]]:
    return [[words, value] for words, value in explained(numbers)]


def _part(pair: tuple[int, int | None] | None, at: int) -> int | None:
    return None if pair is None else pair[at]


def _share(value: float | None) -> float | None:
    found = _finite(value)
    return None if found is None else min(1.0, max(0.0, found))  # sums of floats end beside 1


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity and no NaN; neither is a measurement."""
    return value if value is not None and math.isfinite(value) else None
