"""autoscaling.mode External: a real HorizontalPodAutoscaler on a WorkerPool, and an operator that does not fight it."""

import time

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, colocated, eventually

pytestmark = pytest.mark.integration


def test_the_hpa_reads_the_scale_and_its_word_stands(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    place.run_all("chat", count=1)
    eventually(lambda: place.items(names.WORKER_POOLS) and place.items(names.WORKER_POOLS)[0].get("status"))
    scale = place.cluster.api.get(place.path(names.WORKER_POOLS, "chat-workers") + "/scale")
    assert scale["spec"]["replicas"] == 1
    assert scale["status"]["replicas"] == 1
    assert (
        scale["status"]["selector"]
        == "tandem.dev/component=worker,tandem.dev/role=workers,tandem.dev/service=chat"
    )

    target = {"type": "Utilization", "averageUtilization": 50}
    # Its lower bound alone makes the controller write the scale, without any metric.
    place.cluster.api.post(
        f"/apis/autoscaling/v2/namespaces/{place.namespace}/horizontalpodautoscalers",
        {
            "metadata": {"name": "chat"},
            "spec": {
                "scaleTargetRef": {
                    "apiVersion": names.API_VERSION,
                    "kind": names.WORKER_POOL,
                    "name": "chat-workers",
                },
                "minReplicas": 3,
                "maxReplicas": 4,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
        },
    )

    eventually(lambda: len(place.workers("chat")) == 3, seconds=60)
    time.sleep(3)
    assert place.items(names.WORKER_POOLS)[0]["spec"]["replicas"] == 3
    hpa = place.cluster.api.get(
        f"/apis/autoscaling/v2/namespaces/{place.namespace}/horizontalpodautoscalers/chat"
    )
    able = {condition["type"]: condition["status"] for condition in hpa["status"]["conditions"]}
    assert able["AbleToScale"] == "True"
