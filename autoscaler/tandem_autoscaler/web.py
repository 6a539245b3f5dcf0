"""What the autoscaler tells over HTTP: probes, its own metrics, and the latest decisions as JSON."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tandem_autoscaler.decide.decision import Kept
from tandem_autoscaler.loop import Autoscaler, Entry
from tandem_autoscaler.own_metrics import registry


def app(autoscaler: Autoscaler, *, leading: Callable[[], bool], alive: Callable[[], bool]) -> FastAPI:
    """`alive` is False when the loop has stopped turning; a standby is ready without leading."""
    web = FastAPI(title="Tandem autoscaler", docs_url=None, redoc_url=None)
    collected = registry(autoscaler, leading=leading)

    @web.get("/healthz")
    async def healthz() -> Response:
        return Response(
            "ok\n" if alive() else "the loop does not turn\n", status_code=200 if alive() else 503
        )

    @web.get("/readyz")
    async def readyz() -> Response:
        return Response("leading\n" if leading() else "standing by\n")

    @web.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(collected), media_type=CONTENT_TYPE_LATEST)

    @web.get("/api/services")
    async def services() -> dict[str, Any]:
        return {
            "leading": leading(),
            "services": [described(entry) for _, entry in sorted(autoscaler.entries.items())],
            "broken": [
                {"namespace": namespace, "name": name, "message": text}
                for (namespace, name), text in sorted(autoscaler.broken.items())
            ],
        }

    return web


def described(entry: Entry) -> dict[str, Any]:
    """One service's latest decisions, numbers and conditions."""
    service, outcome = entry.service, entry.outcome
    return {
        "namespace": service.namespace,
        "name": service.name,
        "mode": service.mode,
        "paused": service.paused,
        "roles": {
            role: {
                "current": decision.current,
                "target": decision.target,
                "minimum": service.pools[role].minimum,
                "maximum": service.pools[role].maximum,
                "reason": decision.why.value,
                "message": decision.message,
                "numbers": dict(decision.numbers),
            }
            for role, decision in outcome.decisions.items()
        },
        "slo": {"ttft": _kept(outcome.ttft), "tpot": _kept(outcome.tpot)},
        "conditions": {
            str(kind): {"status": verdict.status, "reason": verdict.reason.value, "message": verdict.message}
            for kind, verdict in outcome.conditions.items()
        },
        "silent": dict(entry.snapshot.silent) if entry.snapshot else {},
    }


def _kept(kept: Kept | None) -> dict[str, Any] | None:
    if kept is None:
        return None
    return {
        "targetSeconds": kept.target_seconds,
        "tailSeconds": kept.tail_seconds,
        "attainment": kept.attainment,
        "attainmentUpper": kept.attainment_upper,
        "how": kept.how,
    }
