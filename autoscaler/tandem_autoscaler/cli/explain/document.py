"""The story for programs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tandem_autoscaler.cli.explain.happened import Happened
from tandem_autoscaler.cli.view import Decision, ServiceView

SCALING_CONDITIONS = ("ScalingActive", "AbleToScale", "ScalingLimited", "SLOMet")


def document(view: ServiceView, events: Sequence[Happened]) -> dict[str, Any]:
    return {
        "namespace": view.namespace,
        "name": view.name,
        "autoscaling": view.scaling,
        "paused": view.paused,
        "decisions": {one.role: _decision(one) for one in view.decisions},
        "history": [{"role": one.role, **_decision(one)} for one in view.history],
        "conditions": [
            {"type": one.kind, "status": one.status, "reason": one.reason, "message": one.message}
            for one in view.conditions
            if one.kind in SCALING_CONDITIONS
        ],
        "events": [
            {
                "at": _stamp(one.at_seconds), "type": "Warning" if one.warning else "Normal",
                "reason": one.reason, "note": one.note,
            }
            for one in events
        ],
    }  # fmt: skip


def _decision(one: Decision) -> dict[str, Any]:
    return {
        "from": one.before,
        "to": one.after,
        "reason": one.reason,
        "message": one.message,
        "at": _stamp(one.at_seconds),
        "numbers": dict(one.numbers),
    }


def _stamp(at_seconds: float | None) -> str | None:
    return (
        None if at_seconds is None else datetime.fromtimestamp(at_seconds, UTC).isoformat(timespec="seconds")
    )
