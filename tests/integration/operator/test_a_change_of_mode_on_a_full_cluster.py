"""The old mode makes room for the new one as far as it can go on serving; what the scheduler says is said by hand."""

import pytest

from tests.integration.operator.conftest import (
    Manifest,
    Operator,
    Place,
    colocated,
    disaggregated,
    eventually,
)

pytestmark = pytest.mark.integration


def finds_no_gpu(place: Place, pod: Manifest) -> None:
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    }  # fmt: skip
    place.set_status(pod, {"phase": "Pending", "conditions": [condition]})


def newcomers(place: Place) -> list[Manifest]:
    pods: list[Manifest] = eventually(
        lambda: (
            (found := place.workers("chat", role="prefill") + place.workers("chat", role="decode"))
            and len(found) == 2
            and found
        )
    )
    for pod in pods:
        finds_no_gpu(place, pod)
    return pods


def workers(replicas: int) -> Manifest:
    return colocated(workers={"minReplicas": replicas, "maxReplicas": replicas})


def test_each_newcomer_gets_the_place_of_one_that_goes(place: Place, operator: Operator) -> None:
    place.apply("chat", workers(3))
    place.run_all("chat", count=3)
    place.run_router("chat")
    place.apply("chat", disaggregated())
    waiting = newcomers(place)
    for left in (2, 1):
        eventually(lambda left=left: len(place.workers("chat", role="workers")) == left, seconds=90)
        assert len(place.workers("chat", role="workers", serving=True)) == left
        place.run(waiting.pop())

    def all_gone() -> bool:
        # The new router's pod comes in its own time.
        place.run_router("chat")
        return not place.workers("chat", role="workers")

    eventually(all_gone, seconds=90)
    eventually(lambda: place.reason("chat") == "AllReady")


def test_one_that_cannot_go_through_without_a_gap_stops_nothing(place: Place, operator: Operator) -> None:
    place.apply("chat", workers(1))
    (only,) = place.run_all("chat", count=1)
    place.run_router("chat")
    place.apply("chat", disaggregated())
    newcomers(place)
    eventually(lambda: place.reason("chat", "PrefillReady") == "ModeChangeBlocked", seconds=60)
    condition = place.condition("chat", "Ready")
    assert condition is not None and only["metadata"]["name"] in condition["message"]
    assert [pod["metadata"]["uid"] for pod in place.workers("chat", role="workers", serving=True)] == [
        only["metadata"]["uid"]
    ]
