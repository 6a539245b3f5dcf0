"""Rollouts (field cases D5, D7), run step by step against a fleet that obeys."""

from typing import Any

import pytest

from tandem_operator.plan.actions import Create, Delete, Drain
from tests.operator.fleet import Fleet, colocated


def rolling_fleet(replicas: int, **changes: Any) -> Fleet:
    fleet = Fleet(colocated(workers={"minReplicas": replicas, "maxReplicas": replicas}, **changes))
    fleet.settle()
    fleet.log.clear()
    fleet.edit(engine={"maxSequences": 64})
    return fleet


def ready_now(fleet: Fleet) -> int:
    return sum(1 for pod in fleet.observed().pods if pod.member and pod.ready)


def roll(fleet: Fleet, *, replicas: int, floor: int, ceiling: int) -> None:
    """To the end, with the promise checked at each step."""
    for _ in range(200):
        decided = fleet.step()
        assert ready_now(fleet) >= floor
        assert len(fleet.pods()) <= ceiling
        fleet.kubelet()
        fleet.now += 1
        hashes = {pod.template_hash for pod in fleet.observed().pods}
        if (
            decided.requeue_seconds is None
            and not decided.actions
            and len(hashes) == 1
            and len(fleet.pods()) == replicas
        ):
            return
    raise AssertionError("the rollout never ends")


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_with_room_the_new_worker_comes_first(replicas: int) -> None:
    roll(rolling_fleet(replicas), replicas=replicas, floor=replicas, ceiling=replicas + 1)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_without_a_spare_gpu_one_goes_first(replicas: int) -> None:
    fleet = rolling_fleet(replicas, gpuBudget=replicas)
    roll(fleet, replicas=replicas, floor=replicas - 1, ceiling=replicas)


def test_a_new_template_that_does_not_get_ready_stops_the_rollout() -> None:
    fleet = rolling_fleet(3)
    for _ in range(30):
        fleet.step()
        fleet.now += 5
    assert len([action for action in fleet.log if isinstance(action, Create)]) == 1
    assert not [action for action in fleet.log if isinstance(action, Drain | Delete)]
    assert ready_now(fleet) == 3
    assert fleet.condition("Progressing")["reason"] == "RollingOut"


def test_going_back_takes_only_the_failed_newcomer_away() -> None:
    fleet = rolling_fleet(3)
    before = {pod["metadata"]["uid"] for pod in fleet.pods()}
    fleet.step()
    fleet.edit(engine={})
    fleet.settle()
    assert {pod["metadata"]["uid"] for pod in fleet.pods()} == before


def test_when_the_cluster_has_no_gpu_for_the_newcomer_an_old_one_makes_room() -> None:
    fleet = rolling_fleet(2)
    fleet.step()
    newcomer = next(action.name for action in fleet.log if isinstance(action, Create))
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    }  # fmt: skip
    fleet.pod(newcomer)["status"] = {"phase": "Pending", "conditions": [condition]}
    fleet.step()
    drained = [action.pod for action in fleet.log if isinstance(action, Drain)]
    assert len(drained) == 1
    assert ready_now(fleet) == 1


def test_a_role_that_its_budget_keeps_short_rolls_out_what_it_has() -> None:
    fleet = Fleet(colocated(gpuBudget=2))
    fleet.settle()
    fleet.scale("workers", 3)
    fleet.settle()
    before = {pod.template_hash for pod in fleet.observed().pods}
    fleet.edit(engine={"maxSequences": 64})
    fleet.step()
    roll(fleet, replicas=2, floor=1, ceiling=2)
    assert before.isdisjoint(pod.template_hash for pod in fleet.observed().pods)


def test_a_role_that_its_cluster_keeps_short_rolls_out_what_it_has() -> None:
    """Two serve and the third has never found a GPU; it gets the one of the first that goes."""
    fleet = Fleet(colocated())
    fleet.settle()
    fleet.scale("workers", 3)
    fleet.step()
    fleet.run(["chat-1"])
    fleet.edit(engine={"maxSequences": 64})
    fleet.step()
    waits = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    }  # fmt: skip
    del fleet.objects[("pods", "chat-2")]
    fleet.step()
    newcomer = next(pod.name for pod in fleet.observed().pods if not pod.ready and pod.member)
    fleet.pod(newcomer)["status"] = {"phase": "Pending", "conditions": [waits]}
    fleet.step()
    assert ready_now(fleet) == 1
    assert [pod.name for pod in fleet.observed().pods if pod.draining]


def test_a_newcomer_that_no_node_can_ever_take_costs_no_old_worker() -> None:
    fleet = rolling_fleet(2)
    fleet.step()
    newcomer = next(action.name for action in fleet.log if isinstance(action, Create))
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "1 node(s) didn't match Pod's node affinity/selector",
    }  # fmt: skip
    fleet.pod(newcomer)["status"] = {"phase": "Pending", "conditions": [condition]}
    for _ in range(5):
        fleet.step()
    assert ready_now(fleet) == 2


def test_old_workers_that_never_served_are_replaced_at_once() -> None:
    fleet = Fleet(colocated(workers={"minReplicas": 3, "maxReplicas": 3}))
    fleet.step()
    fleet.edit(engine={"maxSequences": 64})
    decided = fleet.step()
    assert len([action for action in decided.actions if isinstance(action, Delete)]) == 3
    assert len([action for action in decided.actions if isinstance(action, Create)]) == 3


def test_shrinking_during_a_rollout_takes_the_old_ones() -> None:
    fleet = rolling_fleet(1)
    fleet.edit(workers={"minReplicas": 1, "maxReplicas": 4}, engine={})
    fleet.settle()
    fleet.scale("workers", 4)
    fleet.settle()
    fleet.edit(engine={"maxSequences": 64})
    fleet.scale("workers", 2)
    fleet.settle()
    assert len(fleet.pods()) == 2
    assert len({pod.template_hash for pod in fleet.observed().pods}) == 1
