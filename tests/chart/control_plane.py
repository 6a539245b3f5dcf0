"""What operator and autoscaler export in a small fleet: their own registries, filled by their own code."""

from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from tandem_api.kubernetes.cluster import POD
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.loop import Autoscaler, Entry
from tandem_autoscaler.own_metrics import registry
from tandem_operator.metrics import Metrics
from tests.autoscaler.scene import Scene

NAMESPACE, SERVICE = "ml", "chat"


def inference_service(name: str = SERVICE, *, ready: str = "True") -> dict[str, Any]:
    """As the operator's status writer leaves it."""
    role = {"desired": 2, "ready": 1, "starting": 1, "draining": 0, "updated": 2, "summary": "1/2"}
    return {
        "metadata": {"namespace": NAMESPACE, "name": name},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "Scaling"}],
            "roles": {"prefill": role, "decode": {**role, "starting": 0, "draining": 1}},
            "gpus": {"used": 4, "budget": 8},
        },
    }


def operator_registry(*services: dict[str, Any]) -> CollectorRegistry:
    """After some passes and writes."""
    metrics = Metrics()
    metrics.leader.set(1)
    metrics.queue_depth.set(2)
    metrics.services.replace(services or [inference_service()])
    for outcome in ("done", "unavailable", "refused", "failed"):
        metrics.reconciles.labels(outcome).inc()
    metrics.reconcile_seconds.observe(0.02)
    metrics.wrote("create", POD)
    return metrics.registry


def autoscaler(*, leading: bool = True) -> Autoscaler:
    """One service that the real decision has sized from its workers' readings; one worker is silent."""
    made = Autoscaler(None, None, Settings(), gpu_budget=16)  # type: ignore[arg-type]  # it makes no tick
    if not leading:
        return made
    scene = Scene(prefill=2, decode=1).settle(prompts=2.0)
    scene.silent.add(next(uid for uid in scene.pods if uid.startswith("prefill")))
    scene.tick(apply=False)
    service = replace(scene.service, namespace=NAMESPACE, name=SERVICE, pods=tuple(scene.pods.values()))
    made.entries[service.key] = Entry(service, scene.state, scene.outcome, scene.snapshot())
    made.counts.timed_ticks, made.counts.tick_seconds = 10, 0.4
    return made


def autoscaler_registry(*, leading: bool = True) -> CollectorRegistry:
    return registry(autoscaler(leading=leading), leading=lambda: leading)
