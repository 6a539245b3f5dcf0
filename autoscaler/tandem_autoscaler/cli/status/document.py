"""The status for programs: the names of the API where it has one."""

from collections.abc import Sequence
from typing import Any

from tandem_autoscaler.cli.view import ServiceView, WorkerView


def document(view: ServiceView, pods: Sequence[WorkerView] | None = None) -> dict[str, Any]:
    """`pods` None: not asked for."""
    found: dict[str, Any] = {
        "namespace": view.namespace,
        "name": view.name,
        "mode": view.mode,
        "model": view.model,
        "autoscaling": view.scaling,
        "paused": view.paused,
        "url": view.url,
        "router": view.router,
        "roles": {
            one.role: {
                "ready": one.ready, "desired": one.desired, "starting": one.starting, "draining": one.draining,
                "updated": one.updated,
            }
            for one in view.roles
        },
        "gpus": {"used": view.gpus_used, "budget": view.gpu_budget},
        "slo": {
            "percentile": view.percentile,
            **{
                one.name.lower(): {
                    "target": one.target, "measured": one.measured, "attainment": one.attainment,
                }
                for one in view.promises
            },
        },
        "conditions": [
            {"type": one.kind, "status": one.status, "reason": one.reason, "message": one.message}
            for one in view.conditions
        ],
    }  # fmt: skip
    if pods is not None:
        found["pods"] = [
            {
                "name": pod.name, "role": pod.role, "phase": pod.phase, "ready": pod.ready,
                "draining": pod.draining, "node": pod.node, "ailment": pod.ailment,
            }
            for pod in pods
        ]  # fmt: skip
    return found
