"""kopf operators pause for a peer of higher priority, by default for any in the cluster (field case D12). Ours has no
peers: one that claims all the cluster for itself changes nothing."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.cluster import LightCluster
from tests.integration.operator.conftest import Operator, Place, disaggregated, eventually

pytestmark = pytest.mark.integration
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "kopf.dev"


def peering_crd(scope: str) -> dict[str, Any]:
    """As kopf's documentation has it."""
    prefix = "Cluster" if scope == "Cluster" else ""
    plural = f"{prefix}KopfPeerings".lower()
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": f"{prefix}KopfPeering", "plural": plural, "singular": plural[:-1],
            },
            "versions": [
                {
                    "name": "v1", "served": True, "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            },
                        }
                    },
                }
            ],
        },
    }  # fmt: skip


@pytest.fixture
def a_jealous_peer(cluster: LightCluster, place: Place) -> Iterator[None]:
    """Another operator's announcement, in the cluster and in the namespace: priority above all, alive for an hour."""
    crds = [peering_crd("Cluster"), peering_crd("Namespaced")]
    peer = {
        "priority": 1_000_000, "lifetime": 3600, "lastseen": datetime.now(UTC).isoformat(),
        "namespace": None,
    }  # fmt: skip
    for crd in crds:
        cluster.api.post(CRDS, crd)
    announced = {
        "ClusterKopfPeering": f"/apis/{GROUP}/v1/clusterkopfpeerings",
        "KopfPeering": f"/apis/{GROUP}/v1/namespaces/{place.namespace}/kopfpeerings",
    }
    for kind, path in announced.items():
        eventually(lambda path=path: served(cluster, path), what=f"{path} is served")
        who = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "default"}}
        cluster.api.post(path, {**who, "status": {"another@host/1": peer}})
    yield
    for crd in crds:
        cluster.api.delete(f"{CRDS}/{crd['metadata']['name']}")


def served(cluster: LightCluster, path: str) -> bool:
    with contextlib.suppress(Exception):
        cluster.api.get(path)
        return True
    return False


def test_ours_goes_on_as_if_alone(
    place: Place, a_jealous_peer: None, start_operator: Callable[..., Operator]
) -> None:
    # Without periodic lists: what it does, it does because its watches told it.
    operator = start_operator("--resync-seconds", "3600")
    eventually(lambda: "leading as" in operator.log.read_text(), seconds=120)
    place.apply("chat", disaggregated())
    place.run_all("chat", count=2)
    eventually(lambda: place.service("chat").get("status", {}).get("summary") == "2/2")
    place.scale("chat-decode", 2)
    eventually(lambda: len(place.workers("chat")) == 3)
    assert "Pausing" not in operator.log.read_text()
