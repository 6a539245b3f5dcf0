"""Budget arithmetic at each instant (field cases B5, H1); the random lives are in the promises' tests."""

import copy

import pytest

from tandem_operator.plan.actions import Create, Drain
from tandem_operator.plan.budget import Budget
from tests.operator.fleet import Fleet, colocated, spec


@pytest.mark.parametrize(
    ("limit", "used", "gpus", "admitted"),
    [
        (None, 100, 8, True),
        (None, None, None, True),
        (8, 0, 8, True),
        (8, 1, 8, False),
        (8, 8, 0, True),
        (0, 0, 1, False),
        (8, None, 1, False),
        (8, 0, None, False),
    ],
)
def test_what_a_budget_admits(limit: int | None, used: int | None, gpus: int | None, admitted: bool) -> None:
    assert Budget(limit, used).admits(gpus) is admitted


def test_a_terminating_worker_still_holds_its_gpus() -> None:
    fleet = Fleet(colocated(gpuBudget=2, workers={"minReplicas": 1, "maxReplicas": 4}))
    fleet.settle()
    fleet.scale("workers", 2)
    fleet.settle()
    fleet.pod("chat-0")["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert not [action for action in fleet.step().actions if isinstance(action, Create)]
    del fleet.objects[("pods", "chat-0")]
    assert [action for action in fleet.step().actions if isinstance(action, Create)]


def test_when_gpus_are_short_every_role_gets_its_minimum_first() -> None:
    fleet = Fleet(
        spec(
            gpuBudget=4,
            prefill={"minReplicas": 1, "maxReplicas": 8},
            decode={"minReplicas": 2, "maxReplicas": 8},
        )
    )
    fleet.step()
    fleet.scale("prefill", 8)
    fleet.settle()
    assert fleet.counts() == {"prefill": 2, "decode": 2}
    assert fleet.condition("PrefillReady")["reason"] == "GPUBudgetExceeded"
    assert "gpuBudget 4" in fleet.condition("PrefillReady")["message"]


def test_a_role_below_its_minimum_gets_the_gpus_of_one_that_is_above() -> None:
    """Two GPUs must get free for one worker, and what gets free first is not taken back by the role that gave it."""
    fleet = Fleet(spec(gpuBudget=5, decode={"minReplicas": 1, "maxReplicas": 8, "gpus": 2}))
    fleet.settle()
    fleet.scale("prefill", 8)
    fleet.settle()
    assert fleet.counts() == {"prefill": 3, "decode": 1}
    fleet.edit(decode={"minReplicas": 2, "maxReplicas": 8, "gpus": 2})
    fleet.settle()
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    assert len([action for action in fleet.log if isinstance(action, Drain)]) == 2


def test_a_minimum_waits_for_gpus_that_come_back_by_themselves() -> None:
    """Workers of a service of this name that was deleted still hold them: nobody of the new one pays for that."""
    fleet = Fleet(spec(gpuBudget=4))
    fleet.settle()
    fleet.scale("decode", 2)
    fleet.settle()
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    ending = copy.deepcopy(fleet.objects[("pods", "chat-0")])
    ending["metadata"] |= {"name": "chat-9", "uid": "earlier", "deletionTimestamp": "2027-01-15T08:00:00Z"}
    ending["metadata"]["ownerReferences"][0]["uid"] = "earlier-service"
    fleet.objects[("pods", "chat-9")] = ending
    fleet.edit(prefill={"minReplicas": 2, "maxReplicas": 8})
    for _ in range(5):
        fleet.step()
        assert fleet.counts() == {"prefill": 1, "decode": 2}
        assert fleet.condition("PrefillReady")["reason"] == "GPUBudgetExceeded"
    del fleet.objects[("pods", "chat-9")]
    fleet.settle()
    assert fleet.counts() == {"prefill": 2, "decode": 2}


def test_a_rollout_gives_back_what_a_minimum_waits_for() -> None:
    """Decode lacks one worker of two GPUs, one is free and kept for it, and prefill's old worker holds one too many."""
    two_gpus = {"minReplicas": 1, "maxReplicas": 4, "gpus": 2}
    fleet = Fleet(spec(gpuBudget=6, prefill=two_gpus, decode=two_gpus))
    fleet.settle()
    fleet.edit(prefill={**two_gpus, "minReplicas": 2, "gpus": 1}, decode={**two_gpus, "minReplicas": 2})
    fleet.settle()
    assert fleet.counts() == {"prefill": 2, "decode": 2}
    assert {pod.gpus for pod in fleet.observed().pods if pod.role == "prefill"} == {1}


@pytest.mark.parametrize("old_gpus", [1, 2, 3])
@pytest.mark.parametrize("late", ["prefill", "decode"])
def test_a_rollout_gives_back_what_a_minimum_waits_for_even_where_not_all_minima_fit(
    late: str, old_gpus: int
) -> None:
    """One role may have one of its two; the GPU that this takes is not both kept for it and awaited by the rollout."""
    rolling = {"prefill": "decode", "decode": "prefill"}[late]
    one = {"minReplicas": 1, "maxReplicas": 4}
    fleet = Fleet(spec(gpuBudget=3, **{rolling: {**one, "gpus": old_gpus}, late: {**one, "gpus": 4}}))
    fleet.settle()
    assert fleet.counts() == {rolling: 1}
    fleet.edit(**{rolling: one, late: {"minReplicas": 2, "maxReplicas": 4, "gpus": 2}})
    fleet.settle()
    assert fleet.counts() == {rolling: 1, late: 1}
    assert {pod.gpus for pod in fleet.observed().pods if pod.role == rolling} == {1}
    assert fleet.condition(f"{late.title()}Ready")["reason"] == "GPUBudgetExceeded"


def test_a_minimum_that_no_budget_allows_costs_nobody_a_worker() -> None:
    fleet = Fleet(spec(gpuBudget=3))
    fleet.settle()
    fleet.scale("prefill", 2)
    fleet.settle()
    fleet.edit(decode={"minReplicas": 3, "maxReplicas": 8})
    fleet.settle()
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    fleet.edit(decode={"minReplicas": 1, "maxReplicas": 8, "gpus": 4})
    fleet.step()
    assert not [action for action in fleet.plan().actions if isinstance(action, Drain)]


def test_a_lowered_budget_lets_go_what_is_above_the_minimum() -> None:
    fleet = Fleet(spec(gpuBudget=8))
    fleet.settle()
    fleet.scale("prefill", 3)
    fleet.scale("decode", 5)
    fleet.settle()
    assert fleet.gpus() == 8
    fleet.edit(gpuBudget=4)
    drained = [action for action in fleet.plan().actions if isinstance(action, Drain)]
    assert len(drained) == 4
    assert "gpuBudget is 4" in drained[-1].reason
    fleet.settle()
    assert fleet.counts() == {"prefill": 2, "decode": 2}
    fleet.edit(gpuBudget=1)
    fleet.settle()
    # The minimum stands: a service without a role serves nothing.
    assert fleet.counts() == {"prefill": 1, "decode": 1}
