"""Events on decisions: from -> to with the numbers. Never on progress, never twice for one decision."""

from datetime import UTC, datetime
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import EVENT, Cluster
from tandem_api.reasons import EventReason
from tandem_autoscaler.fleet.service import Service

# events.k8s.io/v1 refuses a longer note.
_LONGEST_NOTE = 1024


def event(service: Service, reason: EventReason, note: str, *, at: datetime, reporter: str) -> dict[str, Any]:
    """The manifest of one event about the service."""
    at = at.astimezone(UTC)
    warning = reason is EventReason.SCALE_BLOCKED
    return {
        "metadata": {
            "name": f"{service.name[:200]}.{int(at.timestamp() * 1e6):x}.{reason.value.lower()}",
            "namespace": service.namespace,
        },
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": names.FIELD_MANAGER_AUTOSCALER,
        "reportingInstance": reporter[:128],
        "action": "Scale",
        "reason": reason.value,
        "type": "Warning" if warning else "Normal",
        "note": note if len(note) <= _LONGEST_NOTE else note[: _LONGEST_NOTE - 1] + "…",
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.INFERENCE_SERVICE,
            "namespace": service.namespace,
            "name": service.name,
            "uid": service.uid,
        },
    }


async def write_event(
    cluster: Cluster, service: Service, reason: EventReason, note: str, *, at: datetime, reporter: str
) -> None:
    """Create the event. Raises ApiError."""
    manifest = event(service, reason, note, at=at, reporter=reporter)
    await cluster.create(EVENT, manifest, manager=names.FIELD_MANAGER_AUTOSCALER)
