"""kubectl delete, an eviction, a spot node's end: the operator did not ask for it, and no request may be lost by it."""

from tandem_api import names
from tandem_operator.observe.timestamp import format_time
from tandem_operator.plan.actions import Create
from tests.operator.fleet import Fleet, colocated


def deleted_by_hand(fleet: Fleet, name: str = "chat-0") -> None:
    fleet.pod(name)["metadata"]["deletionTimestamp"] = format_time(fleet.now + 600)


def two() -> Fleet:
    fleet = Fleet(colocated(workers={"minReplicas": 2, "maxReplicas": 2}))
    fleet.settle()
    return fleet


def test_its_label_goes_at_once() -> None:
    fleet = two()
    deleted_by_hand(fleet)
    (mark,) = fleet.step().marks
    assert (mark.pod, mark.labels) == ("chat-0", {names.LABEL_SERVING: None})


def test_once() -> None:
    fleet = two()
    deleted_by_hand(fleet)
    fleet.step()
    assert fleet.plan().marks == ()


def test_its_successor_comes_while_it_still_finishes() -> None:
    fleet = two()
    deleted_by_hand(fleet)
    created = [action.name for action in fleet.step().actions if isinstance(action, Create)]
    assert created == ["chat-2"]


def test_with_the_budget_spent_its_successor_waits_for_its_gpu() -> None:
    fleet = Fleet(colocated(workers={"minReplicas": 2, "maxReplicas": 2}, gpuBudget=2))
    fleet.settle()
    deleted_by_hand(fleet)
    assert [action for action in fleet.step().actions if isinstance(action, Create)] == []
    del fleet.objects[("pods", "chat-0")]
    assert [action.name for action in fleet.step().actions if isinstance(action, Create)] == ["chat-0"]
