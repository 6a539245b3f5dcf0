"""Groups of pods on the real API server: it takes what is rendered, and a lost rank replaces the whole group."""

from typing import Any

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, colocated, eventually

pytestmark = pytest.mark.integration

GROUP = {"minReplicas": 1, "maxReplicas": 4, "gpus": 8, "nodes": 2}
Manifest = dict[str, Any]


def pods_of(place: Place) -> dict[str, Manifest]:
    """Every pod of the workers of `chat`, followers too, that nobody has asked to go."""
    found = {}
    for pod in place.items("pods"):
        component = pod["metadata"].get("labels", {}).get(names.LABEL_COMPONENT)
        if component in (names.COMPONENT_WORKER, names.COMPONENT_FOLLOWER):
            found[pod["metadata"]["name"]] = pod
    return found


def serving_group(place: Place) -> dict[str, Manifest]:
    """The first group, with both its engines serving."""
    place.apply("chat", colocated(workers=GROUP))
    pods = eventually(lambda: (found := pods_of(place)) and len(found) == 2 and found, what="both pods")
    for pod in pods.values():
        place.run(pod)
    eventually(
        lambda: names.ANNOTATION_JOINED in pods_of(place)["chat-0"]["metadata"]["annotations"],
        what="the operator has seen both ranks serve",
    )
    return pods


def test_one_replica_is_two_pods_and_is_counted_once(place: Place, operator: Operator) -> None:
    service = place.apply("chat", colocated(workers=GROUP))
    pods = eventually(lambda: (found := pods_of(place)) and len(found) == 2 and found)
    assert set(pods) == {"chat-0", "chat-0-r1"}
    for pod in pods.values():
        assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [service["metadata"]["uid"]]
    assert place.workers("chat", serving=True) == [pods["chat-0"]]

    place.run(pods["chat-0"])
    eventually(lambda: place.service("chat")["status"]["summary"] == "0/1")
    place.run(pods["chat-0-r1"])
    status = eventually(lambda: (s := place.service("chat")["status"]) and s["summary"] == "1/1" and s)
    assert status["gpus"] == {"used": 16}
    pool = place.items(names.WORKER_POOLS)[0]
    assert (pool["status"]["replicas"], pool["status"]["readyReplicas"]) == (1, 1)


def test_the_leader_has_a_name_in_dns_before_it_is_ready(place: Place, operator: Operator) -> None:
    """The endpoints that a cluster's DNS answers from; a loopback address would not be among them."""
    place.apply("chat", colocated(workers=GROUP))
    pods = eventually(lambda: (found := pods_of(place)) and len(found) == 2 and found)
    for number, pod in enumerate(pods.values()):
        ip = f"10.9.8.{number + 1}"
        place.set_status(pod, {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]})

    def endpoints() -> list[tuple[str, list[str]]]:
        return [
            (endpoint["hostname"], endpoint["addresses"])
            for item in place.items("endpointslices", "discovery.k8s.io/v1")
            if item["metadata"]["labels"]["kubernetes.io/service-name"] == "chat-leaders"
            for endpoint in item.get("endpoints") or []
        ]

    assert eventually(endpoints) == [("chat-0", ["10.9.8.1"])]


def test_a_lost_rank_replaces_the_whole_group(place: Place, operator: Operator) -> None:
    before = {pod["metadata"]["uid"] for pod in serving_group(place).values()}
    place.cluster.api.delete(place.path("pods", "chat-0-r1") + "?gracePeriodSeconds=0")

    def replaced() -> bool:
        now = [pod["metadata"]["uid"] for pod in pods_of(place).values()]
        return len(now) == 2 and before.isdisjoint(now)

    eventually(replaced, seconds=60, what="two new pods")
    eventually(
        lambda: any("chat-0-r1 is gone" in event["message"] for event in place.items("events")),
        what="an event that names the lost rank",
    )


def test_a_rank_that_is_missing_before_the_engine_serves_is_made_again(
    place: Place, operator: Operator
) -> None:
    place.apply("chat", colocated(workers=GROUP))
    pods = eventually(lambda: (found := pods_of(place)) and len(found) == 2 and found)
    place.cluster.api.delete(place.path("pods", "chat-0-r1") + "?gracePeriodSeconds=0")
    eventually(
        lambda: (
            (again := pods_of(place).get("chat-0-r1"))
            and again["metadata"]["uid"] != pods["chat-0-r1"]["metadata"]["uid"]
        )
    )
    assert pods_of(place)["chat-0"]["metadata"]["uid"] == pods["chat-0"]["metadata"]["uid"]


def test_the_last_replica_takes_all_its_pods_and_the_service_leaves_nothing(
    place: Place, operator: Operator
) -> None:
    serving_group(place)
    place.delete("chat")
    eventually(lambda: not pods_of(place), seconds=60)
    eventually(
        lambda: not [item for item in place.items("services") if item["metadata"]["name"].startswith("chat")],
        seconds=60,
    )
