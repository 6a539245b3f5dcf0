"""Backoff per worker: a node that refuses every pod is no fork bomb, and a single failure costs ten seconds."""

import itertools

import pytest

from tandem_operator.plan.actions import Create
from tests.operator.fleet import Fleet, colocated


def one() -> Fleet:
    fleet = Fleet(colocated())
    fleet.settle()
    fleet.log.clear()
    return fleet


def kubelet_refuses(fleet: Fleet) -> None:
    """Whatever is not ready fails at once; what is being deleted is gone at once."""
    for pod in fleet.pods():
        if pod["metadata"].get("deletionTimestamp"):
            del fleet.objects[("pods", pod["metadata"]["name"])]
        elif not pod.get("status"):
            pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}


def creations(fleet: Fleet, seconds: int) -> list[float]:
    """When, from the first failure on, a worker was made."""
    began, made = fleet.now, []
    while fleet.now - began < seconds:
        made += [fleet.now - began for action in fleet.step().actions if isinstance(action, Create)]
        kubelet_refuses(fleet)
        fleet.now += 1
    return made


def failing() -> Fleet:
    fleet = one()
    fleet.now += 10_000
    fleet.pods()[0]["status"] = {"phase": "Failed", "reason": "Evicted"}
    return fleet


def test_after_a_long_life_the_successor_comes_at_once() -> None:
    assert creations(failing(), 5) == [0]


def test_each_failure_in_a_row_doubles_the_wait_up_to_five_minutes() -> None:
    made = creations(failing(), 2500)
    waits = [later - sooner for sooner, later in itertools.pairwise(made)]
    assert waits[:6] == pytest.approx([10, 20, 40, 80, 160, 300], abs=3)
    assert all(wait == pytest.approx(300, abs=3) for wait in waits[5:])
    assert len(made) <= 13


def test_one_that_served_for_long_begins_anew() -> None:
    fleet = failing()
    creations(fleet, 100)
    fleet.run()
    fleet.settle()
    fleet.now += 1000
    fleet.pods()[0]["status"] = {"phase": "Failed", "reason": "Evicted"}
    assert creations(fleet, 30) == pytest.approx([0, 10], abs=2)


def test_the_other_role_does_not_wait_for_it() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.now += 10_000
    prefill = fleet.pods(role="prefill")[0]
    prefill["status"] = {"phase": "Failed", "reason": "Evicted"}
    creations(fleet, 60)
    fleet.scale("decode", 2)
    assert [action.role for action in fleet.step().actions if isinstance(action, Create)] == ["decode"]


def test_never_more_of_them_than_places() -> None:
    fleet = failing()
    for _ in range(600):
        fleet.step()
        kubelet_refuses(fleet)
        fleet.now += 1
        assert len(fleet.pods()) <= 2
