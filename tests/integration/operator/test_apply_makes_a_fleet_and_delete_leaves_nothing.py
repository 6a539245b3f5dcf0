"""The main job of the operator, on the real API server."""

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, colocated, disaggregated, eventually

pytestmark = pytest.mark.integration


def test_one_manifest_gives_workers_of_both_roles_pools_and_a_router(
    place: Place, operator: Operator
) -> None:
    place.apply("chat", disaggregated())

    place.run_all("chat", count=2)
    place.run_router("chat")
    eventually(lambda: place.reason("chat") == "AllReady")

    assert {pod["metadata"]["labels"][names.LABEL_ROLE] for pod in place.workers("chat")} == {
        "prefill",
        "decode",
    }
    status = place.service("chat")["status"]
    assert status["url"] == f"http://chat.{place.namespace}.svc/v1"
    assert status["summary"] == "2/2"
    assert status["roles"]["prefill"]["summary"] == status["roles"]["decode"]["summary"] == "1/1"
    assert status["gpus"] == {"used": 2}
    pools = {pool["metadata"]["name"]: pool for pool in place.items(names.WORKER_POOLS)}
    assert pools["chat-prefill"]["status"]["replicas"] == 1
    assert pools["chat-prefill"]["status"]["readyReplicas"] == 1


def test_every_object_is_owned_and_nothing_has_a_finalizer(place: Place, operator: Operator) -> None:
    service = place.apply("chat", disaggregated())
    place.run_all("chat", count=2)
    objects = [
        *place.workers("chat"),
        *place.items(names.WORKER_POOLS),
        *(item for item in place.items("services") if item["metadata"]["name"] == "chat"),
        *place.items("deployments", "apps/v1"),
        *place.items("poddisruptionbudgets", "policy/v1"),
        *place.items("networkpolicies", "networking.k8s.io/v1"),
        *place.items("roles", "rbac.authorization.k8s.io/v1"),
        *place.items("rolebindings", "rbac.authorization.k8s.io/v1"),
    ]
    assert len(objects) == 2 + 2 + 1 + 1 + 2 + 1 + 1 + 1
    for item in objects:
        assert [owner["uid"] for owner in item["metadata"]["ownerReferences"]] == [service["metadata"]["uid"]]
        assert "finalizers" not in item["metadata"]
    seen = place.service("chat")["metadata"]
    assert "finalizers" not in seen
    assert "annotations" not in seen


def test_deleting_the_service_removes_everything(place: Place, operator: Operator) -> None:
    place.apply("chat", disaggregated())
    place.run_all("chat", count=2)

    place.delete("chat")

    def left() -> list[str]:
        found = (
            place.workers("chat") + place.items(names.WORKER_POOLS) + place.items("deployments", "apps/v1")
        )
        found += [item for item in place.items("services") if item["metadata"]["name"].startswith("chat")]
        found += place.items("poddisruptionbudgets", "policy/v1") + place.items(
            "roles", "rbac.authorization.k8s.io/v1"
        )
        return [item["metadata"]["name"] for item in found]

    eventually(lambda: not left(), seconds=60, what="all children gone")


def test_a_service_that_is_made_anew_gets_a_fleet_anew(place: Place, operator: Operator) -> None:
    """Names of the old one may still be held while the garbage collector is at work."""
    place.apply("chat", colocated())
    first = place.run_all("chat", count=1)[0]["metadata"]["uid"]
    place.delete("chat")
    second = place.apply("chat", colocated())["metadata"]["uid"]

    def anew() -> bool:
        pods = place.workers("chat")
        return len(pods) == 1 and pods[0]["metadata"]["uid"] != first

    eventually(anew, seconds=60)
    deployment = eventually(lambda: place.items("deployments", "apps/v1"), seconds=60)[0]
    assert deployment["metadata"]["ownerReferences"][0]["uid"] == second
    assert place.reason("chat") != "NameConflict"


def test_a_vanished_child_is_made_again(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    pod = place.run_all("chat", count=1)[0]
    eventually(lambda: place.condition("chat", "WorkersReady"))
    place.cluster.api.delete(place.path("services", "chat"))
    place.cluster.api.delete(place.path("pods", pod["metadata"]["name"]) + "?gracePeriodSeconds=0")

    eventually(lambda: "chat" in [item["metadata"]["name"] for item in place.items("services")])
    eventually(
        lambda: [item for item in place.workers("chat") if item["metadata"]["uid"] != pod["metadata"]["uid"]]
    )


def test_a_child_that_was_edited_by_hand_is_put_right(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    path = place.path("deployments", "chat-router", group="apps/v1")
    eventually(lambda: place.items("deployments", "apps/v1"))
    place.cluster.api.patch(path, {"spec": {"replicas": 3}})
    eventually(lambda: place.cluster.api.get(path)["spec"]["replicas"] == 1)
