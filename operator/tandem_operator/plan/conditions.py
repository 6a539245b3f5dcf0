"""Conditions as Kubernetes wants them: absent when they do not apply, and with a transition time that moves only
with the status."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tandem_api.reasons import Condition, Reason
from tandem_operator.observe.timestamp import format_time

# The operator's own types; the rest of `Condition` is the autoscaler's and never written here.
OWN_CONDITIONS = (
    Condition.READY,
    Condition.PROGRESSING,
    Condition.PREFILL_READY,
    Condition.DECODE_READY,
    Condition.WORKERS_READY,
    Condition.ROUTER_READY,
    Condition.KV_CACHE_FITS,
    Condition.KV_LEAK_SUSPECTED,
    Condition.SCHEMA_CURRENT,
    Condition.GATEWAY_READY,
    Condition.SETTINGS_SOUND,
)


@dataclass(frozen=True)
class Verdict:
    """One condition before it has a time."""

    type: Condition
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str = ""

    @property
    def holds(self) -> bool:
        return self.status == "True"


def wire_conditions(
    verdicts: Iterable[Verdict], *, live: Iterable[Mapping[str, Any]], generation: int, now: float
) -> list[dict[str, Any]]:
    """In the order of OWN_CONDITIONS."""
    before = {condition.get("type"): condition for condition in live}
    wire = []
    for verdict in sorted(verdicts, key=lambda verdict: OWN_CONDITIONS.index(verdict.type)):
        old = before.get(verdict.type)
        since = old.get("lastTransitionTime") if old and old.get("status") == verdict.status else None
        wire.append(
            {
                "type": str(verdict.type),
                "status": verdict.status,
                "reason": str(verdict.reason),
                "message": verdict.message,
                "observedGeneration": generation,
                "lastTransitionTime": since or format_time(now),
            }
        )
    return wire
