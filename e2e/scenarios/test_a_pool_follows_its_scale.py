"""External mode: whoever writes the pool's scale is obeyed, up and down, and delete leaves nothing."""

from collections.abc import Callable
from typing import Any

from e2e.demo.stage import Stage
from e2e.scenarios.services import simulated


def pods(stage: Stage, namespace: str) -> list[dict[str, Any]]:
    found = stage.read("get", "pods", "-n", namespace, "-l", "tandem.dev/component=worker")
    return [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]


def ready(stage: Stage, namespace: str) -> int:
    """Ready workers as the pool tells; 0 while the operator has not made the pool yet."""
    pools = stage.read("get", "wpool", "-n", namespace)["items"]
    return sum(pool.get("status", {}).get("readyReplicas", 0) for pool in pools)


def test_scale_up_scale_down_and_delete(
    stage: Stage, namespace: str, apply: Callable[..., None], eventually: Callable[..., Any]
) -> None:
    apply(simulated())
    eventually(lambda: ready(stage, namespace) == 1, 90, "one worker is ready")

    stage.kubectl("scale", "wpool/quick-workers", "--replicas=3", "-n", namespace)
    eventually(lambda: ready(stage, namespace) == 3, 60, "three workers are ready")

    stage.kubectl("scale", "wpool/quick-workers", "--replicas=1", "-n", namespace)
    eventually(lambda: len(pods(stage, namespace)) == 1, 90, "one worker is left")
    assert ready(stage, namespace) == 1

    # Beyond maxReplicas nothing is created, whoever asks.
    stage.kubectl("scale", "wpool/quick-workers", "--replicas=9", "-n", namespace)
    eventually(lambda: len(pods(stage, namespace)) == 4, 60, "four workers, maxReplicas")

    stage.kubectl("delete", "infsvc", "quick", "-n", namespace, "--timeout=60s")
    kinds = "pods,services,deployments,replicasets,wpool,pdb,networkpolicy,role,rolebinding,serviceaccount"

    def left() -> list[str]:
        items = stage.read("get", kinds, "-n", namespace)["items"]
        return [
            f"{item['kind']}/{item['metadata']['name']}"
            for item in items
            if item["metadata"]["name"] not in ("default", "kube-root-ca.crt")
        ]

    eventually(lambda: not left(), 120, "delete leaves nothing")
