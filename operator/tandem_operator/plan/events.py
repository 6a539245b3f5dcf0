"""Events: decisions and faults, once each, never progress."""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_api.reasons import Condition, EventReason, Reason
from tandem_operator.plan.actions import Action, Create, Delete, Drain, Flip, Notice, Undrain

# Reasons that mean that somebody should look.
_FAULTS = frozenset(
    {
        Reason.SECRET_NOT_FOUND, Reason.CONFIG_MAP_NOT_FOUND, Reason.VOLUME_CLAIM_NOT_FOUND, Reason.IMAGE_PULL_FAILED,
        Reason.INSUFFICIENT_GPU, Reason.UNSCHEDULABLE, Reason.INSUFFICIENT_KV_CACHE, Reason.MODEL_NOT_FOUND,
        Reason.PREFLIGHT_REFUSED, Reason.OUT_OF_MEMORY, Reason.CRASH_LOOP, Reason.CONTAINER_CONFIG_ERROR,
        Reason.NODE_LOST, Reason.STUCK_TERMINATING, Reason.POD_REFUSED, Reason.GPU_BUDGET_EXCEEDED,
        Reason.GPU_COUNT_UNKNOWN, Reason.MODE_CHANGE_BLOCKED, Reason.KV_NOT_RELEASED, Reason.SCHEMA_OUTDATED,
    }
)  # fmt: skip
_OWN_EVENT = {
    Reason.GPU_BUDGET_EXCEEDED: EventReason.SCALE_BLOCKED,
    Reason.GPU_COUNT_UNKNOWN: EventReason.SCALE_BLOCKED,
    Reason.MODE_CHANGE_BLOCKED: EventReason.SCALE_BLOCKED,
    Reason.SCHEMA_OUTDATED: EventReason.SCHEMA_OUTDATED,
}
# Only Ready has these.
_OF_READY = {Reason.INVALID_SPEC: EventReason.INVALID_SPEC, Reason.NAME_CONFLICT: EventReason.NAME_CONFLICT}


def action_events(actions: Iterable[Action]) -> tuple[Notice, ...]:
    """One event per worker that comes or goes, with the reason of the decision."""
    notices = []
    for action in actions:
        match action:
            case Create():
                pod, reason = action.name, EventReason.WORKER_CREATED
                pods = f" and {len(action.others)} more for its other nodes" if action.others else ""
                text = f"{action.reason}: created {pod}{pods}"
            case Drain():
                pod, reason = action.pod, EventReason.WORKER_DRAINING
                text = f"{pod} leaves the router: {action.reason}"
            case Undrain():
                pod, reason = action.pod, EventReason.WORKER_UNDRAINED
                text = f"{pod} comes back to the router: {action.reason}"
            case Flip():
                pod, reason = action.pod, EventReason.ROLE_FLIPPED
                text = f"{pod} becomes a {action.role} worker: {action.reason}"
            case Delete():
                pod, reason = action.pod, EventReason.WORKER_DELETED
                text = f"deleted {pod}: {action.reason}"
        notices.append(Notice("Normal", reason, text, pod=pod))
    return tuple(notices)


def fault_events(status: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Notice, ...]:
    """A warning when a condition takes on the reason of a fault. The live status is the memory, so that a restart of
    the operator repeats nothing."""
    before = {condition.get("type"): condition.get("reason") for condition in live.get("conditions") or []}
    notices = []
    for condition in status.get("conditions") or []:
        reason = Reason(condition["reason"])
        if before.get(condition["type"]) == reason or condition["type"] == Condition.PROGRESSING:
            continue
        if reason in _OF_READY:
            notices.append(Notice("Warning", _OF_READY[reason], condition["message"]))
        # Ready only repeats what a role's condition says.
        elif reason in _FAULTS and condition["type"] != Condition.READY:
            notices.append(
                Notice(
                    "Warning",
                    _OWN_EVENT.get(reason, EventReason.WORKER_FAILING),
                    f"{reason}: {condition['message']}",
                )
            )
    return tuple(notices)
