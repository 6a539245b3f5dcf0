"""autoscaling.mode External: a real KEDA ScaledObject on a WorkerPool, and an operator that only follows."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem_api import names
from tests.integration.conftest import ROOT, Kubectl
from tests.integration.keda.conftest import ACCOUNT, NAMESPACE, Load
from tests.integration.operator.conftest import Operator, Place, eventually

pytestmark = [pytest.mark.integration, pytest.mark.keda, pytest.mark.timeout(1800)]

SCALE = f"{names.GROUP}/{names.WORKER_POOLS}/scale"
HPA_PATH = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers/keda-hpa-chat-workers"


def example() -> tuple[dict[str, Any], dict[str, Any]]:
    """examples/keda.yaml: the service and its ScaledObject."""
    service, scaled = yaml.safe_load_all((ROOT / "examples" / "keda.yaml").read_text())
    return service, scaled


def impatient(scaled: dict[str, Any], load: Load) -> dict[str, Any]:
    """The example's ScaledObject with the test's Prometheus and namespace, down to zero, and with short waits."""
    (trigger,) = scaled["spec"]["triggers"]
    trigger["metadata"]["serverAddress"] = load.url
    asked = trigger["metadata"]["query"]
    trigger["metadata"]["query"] = asked.replace('namespace="default"', f'namespace="{load.namespace}"')
    assert trigger["metadata"]["query"] != asked
    scaled["metadata"]["namespace"] = load.namespace
    scaled["spec"] |= {
        "minReplicaCount": 0,
        "pollingInterval": 1,
        "cooldownPeriod": 3,
        "advanced": {
            "horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
        },
    }
    return scaled


def target(place: Place) -> int:
    (pool,) = place.items(names.WORKER_POOLS)
    return int(pool["spec"]["replicas"])


def hpa_status(place: Place) -> tuple[int, str, str]:
    """Of the HPA that KEDA made: replicas, and whether it is able to scale and has a metric."""
    status = place.cluster.api.get(HPA_PATH.format(place.namespace))["status"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    return status["currentReplicas"], conditions["AbleToScale"], conditions["ScalingActive"]


def test_a_scaled_object_takes_a_pool_to_zero_and_up_again(
    keda: Path, load: Load, place: Place, operator: Operator, kubectl: Kubectl
) -> None:
    service, scaled = example()
    service["spec"]["workers"]["minReplicas"] = 0
    place.apply("chat", service["spec"])
    eventually(lambda: place.items(names.WORKER_POOLS))
    place.scale("chat-workers", 1)
    place.run_all("chat", count=1)
    mark = place.cluster.audit.mark()

    done = kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(impatient(scaled, load)))
    assert done.returncode == 0, done.stderr
    eventually(lambda: target(place) == 0, seconds=60, what="idle: KEDA scales to zero")
    eventually(lambda: not place.workers("chat"), seconds=60, what="the last worker is drained and gone")

    load.requests = 5
    eventually(lambda: target(place) == 1, seconds=60, what="demand: KEDA itself scales from zero")
    place.run_all("chat", count=1)

    load.requests = 40  # 16 per worker: three
    eventually(lambda: target(place) == 3, seconds=90, what="the HPA follows KEDA's metric")
    place.run_all("chat", count=3)
    eventually(lambda: hpa_status(place) == (3, "True", "True"), what="the HPA knows what it has")

    load.requests = 0
    eventually(lambda: target(place) == 0, seconds=90, what="idle again")
    eventually(lambda: not place.workers("chat"), seconds=90, what="all workers are drained and gone")

    writes = place.cluster.audit.writes_since(mark)
    scalers = {
        write.user for write in writes if write.resource == SCALE and write.namespace == place.namespace
    }
    assert scalers == {
        f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}",
        "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
    }
    targets = f"{names.GROUP}/{names.WORKER_POOLS}"
    assert [write for write in operator.writes_since(mark) if write.resource in (targets, SCALE)] == []


@pytest.mark.parametrize("outage", [Load.lose_the_series, Load.lose_prometheus])
def test_a_metrics_outage_takes_no_worker_away(
    keda: Path, load: Load, place: Place, operator: Operator, kubectl: Kubectl, outage: Callable[[Load], None]
) -> None:
    service, scaled = example()
    three_workers(load, place, kubectl, service, scaled)
    outage(load)
    seen: set[int] = set()

    def fallen_back() -> bool:
        seen.add(target(place))
        return fallback(place) == "True"

    eventually(fallen_back, seconds=60, what="KEDA says that it falls back")
    ends = time.monotonic() + 20  # twenty polls of KEDA's, four rounds of the HPA controller's
    while time.monotonic() < ends:
        seen.add(target(place))
        time.sleep(0.2)
    assert seen == {3}


def test_without_the_examples_precautions_the_same_outage_looks_like_a_quiet_night(
    keda: Path, load: Load, place: Place, operator: Operator, kubectl: Kubectl
) -> None:
    """What `ignoreNullValues: "false"` and `fallback` are for."""
    service, scaled = example()
    del scaled["spec"]["fallback"]
    del scaled["spec"]["triggers"][0]["metadata"]["ignoreNullValues"]
    three_workers(load, place, kubectl, service, scaled)
    load.lose_the_series()
    eventually(lambda: target(place) == 1, seconds=60, what="no answer counts as no load")


def three_workers(
    load: Load, place: Place, kubectl: Kubectl, service: dict[str, Any], scaled: dict[str, Any]
) -> None:
    """Forty requests are open, and KEDA has made three workers for them; at least one stays."""
    place.apply("chat", service["spec"])
    eventually(lambda: place.items(names.WORKER_POOLS))
    load.requests = 40
    scaled = impatient(scaled, load)
    scaled["spec"]["minReplicaCount"] = 1
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(scaled), check=True)
    eventually(lambda: target(place) == 3, seconds=90, what="three workers for forty requests")
    place.run_all("chat", count=3)


def fallback(place: Place) -> str | None:
    found = place.cluster.api.get(
        f"/apis/keda.sh/v1alpha1/namespaces/{place.namespace}/scaledobjects/chat-workers"
    )
    conditions = found.get("status", {}).get("conditions", [])
    return next((each["status"] for each in conditions if each["type"] == "Fallback"), None)
