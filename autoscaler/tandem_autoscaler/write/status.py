"""The autoscaler's part of an InferenceService's status: slo, autoscaling and four conditions.

It is written by server-side apply under its own field manager, beside the operator's part, and only when it says
something new: numbers move all the time, so a number counts as changed when it moved by a quarter.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from tandem_api import names
from tandem_api.durations import format_seconds
from tandem_api.inference_service import (
    AutoscalingStatus,
    DecisionStatus,
    SLOStatus,
    StatusCondition,
    TargetStatus,
)
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, Cluster
from tandem_api.reasons import Condition
from tandem_autoscaler.decide.decision import Decision, Kept, Outcome, Verdict
from tandem_autoscaler.decide.state import PROMPT_BASE, PROMPT_PER_TOKEN, STEP_BASE, STEP_PER_SEQUENCE
from tandem_autoscaler.decide.words import stored
from tandem_autoscaler.fleet.service import Service

OWNED = (Condition.SCALING_ACTIVE, Condition.ABLE_TO_SCALE, Condition.SCALING_LIMITED, Condition.SLO_MET)
_HISTORY = 5
# A line's two coefficients wander against each other while the line stays where it is. What it says at the present
# load stands beside them and is judged; they are written along with the next news, for a restart.
_COEFFICIENTS = frozenset({PROMPT_BASE, PROMPT_PER_TOKEN, STEP_BASE, STEP_PER_SEQUENCE})
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def status_of(
    service: Service, outcome: Outcome, conditions: Mapping[str, Verdict], *, at: datetime
) -> dict[str, Any]:
    """Our part as it should read. What has not changed keeps its time."""
    stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    live = service.status
    scaling = live.get("autoscaling")
    before: Mapping[str, Any] = scaling if isinstance(scaling, Mapping) else {}
    roles = {
        role: _decision(d, before.get("roles", {}).get(role), stamp) for role, d in outcome.decisions.items()
    }
    history = _readable(before.get("history"))
    for role, decision in outcome.decisions.items():
        if decision.changes and _is_news(before.get("roles", {}).get(role), decision):
            history.insert(0, roles[role])
    status: dict[str, Any] = {
        "autoscaling": AutoscalingStatus(
            mode=service.mode, roles=roles, history=history[:_HISTORY]
        ).to_wire(),
        "conditions": [
            condition.to_wire()
            for condition in _conditions(service, conditions, live.get("conditions"), stamp)
        ],
    }
    if service.targets is not None and outcome.ttft is not None and outcome.tpot is not None:
        status["slo"] = SLOStatus(
            ttft=_target(outcome.ttft),
            tpot=_target(outcome.tpot),
            percentile=round(service.targets.quantile * 100),
        ).to_wire()
    return status


def _readable(items: Any) -> list[DecisionStatus]:
    """What another version wrote and this one cannot read is left out: it must not keep today's from being written."""
    found = []
    for item in items if isinstance(items, list) else ():
        with suppress(ValidationError):
            found.append(DecisionStatus.model_validate(item))
    return found


def _decision(decision: Decision, before: Any, stamp: str) -> DecisionStatus:
    same = (
        isinstance(before, Mapping)
        and before.get("from") == decision.current
        and before.get("to") == decision.target
        and before.get("reason") == decision.why.value
    )
    return DecisionStatus(
        role=decision.role,
        from_replicas=decision.current,
        to=decision.target,
        reason=decision.why.value,
        message=decision.message,
        at=str(before["at"]) if same and isinstance(before, Mapping) else stamp,
        numbers=stored(decision.numbers),
    )


def _is_news(before: Any, decision: Decision) -> bool:
    """False for the same change decided again: a recommendation stands until it is another one."""
    if not isinstance(before, Mapping):
        return True
    return bool(before.get("from") != decision.current or before.get("to") != decision.target)


def _target(kept: Kept) -> TargetStatus:
    share = kept.attainment
    return TargetStatus(
        target=format_seconds(kept.target_seconds),
        measured=None if kept.tail_seconds is None else format_seconds(float(f"{kept.tail_seconds:.2g}")),
        attainment=None if share is None else f"{share * 100:.0f}%",
    )


def _conditions(
    service: Service, wanted: Mapping[str, Verdict], live: Any, stamp: str
) -> list[StatusCondition]:
    before = {item.get("type"): item for item in live or [] if isinstance(item, Mapping)}
    found = []
    for kind, verdict in sorted(wanted.items()):
        old = before.get(str(kind), {})
        since = old.get("lastTransitionTime") if old.get("status") == verdict.status else None
        found.append(
            StatusCondition.model_validate(
                {
                    "type": str(kind),
                    "status": verdict.status,
                    "reason": verdict.reason.value,
                    "message": verdict.message,
                    "observedGeneration": service.generation,
                    "lastTransitionTime": since or stamp,
                }
            )
        )
    return found


# --- has anything changed ---------------------------------------------------------------------------------
def news(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True when `wanted` tells a reader something that `live` does not."""
    if not _same(live.get("slo"), wanted.get("slo")) or not _same(
        live.get("autoscaling"), wanted.get("autoscaling")
    ):
        return True
    return not _same(_ours(live.get("conditions")), _ours(wanted.get("conditions")))


def _ours(conditions: Any) -> dict[str, Any]:
    owned = {str(kind) for kind in OWNED}
    items = conditions if isinstance(conditions, Sequence) else []
    return {item["type"]: item for item in items if item.get("type") in owned}


def _same(old: Any, new: Any, name: str = "") -> bool:
    if name in _COEFFICIENTS and old is not None and new is not None:
        return True
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(_same(old[key], new[key], key) for key in new)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_same(a, b, name) for a, b in zip(old, new, strict=True))
    if isinstance(old, str) and isinstance(new, str):
        if name == "message":
            # The numbers in it stand beside it, where their change is judged.
            return _NUMBER.sub("#", old) == _NUMBER.sub("#", new)
        return old == new or _close(old, new, name)
    return bool(old == new)


def _close(old: str, new: str, name: str) -> bool:
    """Two numbers, shares or durations so near that a reader would not care."""
    if name == "attainment" and old.endswith("%") and new.endswith("%"):
        return abs(float(old[:-1]) - float(new[:-1])) <= 3
    if name == "measured":
        return _near(_seconds(old), _seconds(new))
    if name in ("to", "from", "reason", "at", "target"):
        return False
    try:
        a, b = float(old), float(new)
    except ValueError:
        return False
    return (name.endswith("Violation") and abs(a - b) <= 0.02) or _near(a, b)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 0.25 * max(abs(a), abs(b))


def _seconds(text: str) -> float:
    for unit, factor in (("ms", 1e-3), ("s", 1.0), ("m", 60.0)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    return float("nan")


async def write_status(cluster: Cluster, service: Service, status: Mapping[str, Any]) -> None:
    """Server-side apply of our part. Raises ApiError."""
    await cluster.apply(
        INFERENCE_SERVICE,
        {"metadata": {"name": service.name, "namespace": service.namespace}, "status": dict(status)},
        manager=names.FIELD_MANAGER_AUTOSCALER,
        subresource="status",
    )
