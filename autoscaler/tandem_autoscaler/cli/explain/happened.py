"""The service's events, newest first. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tandem_api import names
from tandem_api.kubernetes.cluster import Manifest
from tandem_autoscaler.cli.view import ServiceView
from tandem_autoscaler.fleet.observe import epoch_seconds


@dataclass(frozen=True)
class Happened:
    at_seconds: float | None
    warning: bool
    reason: str
    note: str


def happened(events: Iterable[Manifest], view: ServiceView) -> list[Happened]:
    """Those about this very service, not about an earlier one of its name."""
    found = []
    for event in events:
        about = event.get("regarding") or {}
        if about.get("kind") != names.INFERENCE_SERVICE or about.get("name") != view.name:
            continue
        if about.get("uid") not in (None, "", view.uid):
            continue
        series = event.get("series") or {}
        at = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
        found.append(
            Happened(
                epoch_seconds(at), event.get("type") == "Warning", str(event.get("reason", "")),
                str(event.get("note", "")),
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: -(one.at_seconds or 0.0))
