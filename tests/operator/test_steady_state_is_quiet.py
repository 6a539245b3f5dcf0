"""What is compared before anything is written (field cases D3, D13)."""

import copy
from typing import Any

import pytest

from tandem_api import names
from tandem_operator.carry_out.compare import says_all, up_to_date
from tandem_operator.carry_out.status_writer import own_part
from tests.operator.fleet import Fleet


@pytest.mark.parametrize(
    ("live", "wanted", "same"),
    [
        ({"a": 1, "defaulted": True}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": {}}, True),
        ({"a": []}, {"a": None}, False),
        ({}, {"a": None, "b": []}, True),
        ({"l": [{"name": "x", "protocol": "TCP"}]}, {"l": [{"name": "x"}]}, True),
        ({"l": [1, 2]}, {"l": [1]}, False),
        ({"cpu": "500m"}, {"cpu": "0.5"}, True),
        ({"cpu": "500m"}, {"cpu": "0.6"}, False),
        ({"port": 80}, {"port": "80"}, True),
        ({"a": "x"}, {"a": {"b": 1}}, False),
    ],
)
def test_defaults_and_spelling_are_no_difference(live: Any, wanted: Any, same: bool) -> None:
    assert says_all(live, wanted) is same


def test_a_field_that_we_no_longer_say_is_seen_by_the_hash() -> None:
    fleet = Fleet()
    apply = next(apply for apply in fleet.plan().objects if apply.kind.plural == "deployments")
    live = copy.deepcopy(apply.manifest)
    live["spec"]["template"]["spec"]["nodeSelector"] = {"was": "ours"}
    live["metadata"]["annotations"][names.ANNOTATION_MANIFEST_HASH] = "of-before"
    assert not up_to_date(live, apply.manifest)


def test_a_settled_fleet_writes_nothing_and_plans_nothing() -> None:
    fleet = Fleet()
    fleet.settle()
    writes = fleet.writes
    for _ in range(5):
        decided = fleet.step()
        assert (decided.actions, decided.marks, decided.events, decided.requeue_seconds) == ((), (), (), None)
        fleet.now += 3600
    assert fleet.writes == writes


def test_times_of_transition_move_only_with_the_status() -> None:
    fleet = Fleet()
    fleet.settle()
    before = {c["type"]: c["lastTransitionTime"] for c in fleet.service["status"]["conditions"]}
    fleet.now += 500
    fleet.edit(gpuBudget=10)
    fleet.settle()
    after = {c["type"]: c["lastTransitionTime"] for c in fleet.service["status"]["conditions"]}
    assert before == after
    assert {c["observedGeneration"] for c in fleet.service["status"]["conditions"]} == {2}


def test_the_autoscalers_part_of_the_status_is_not_ours() -> None:
    theirs = {"type": "ScalingActive", "status": "True", "reason": "MetricsOK"}
    status = {"slo": {"percentile": 95}, "autoscaling": {"mode": "Auto"}, "conditions": [theirs], "url": "u"}
    assert own_part(status) == {"url": "u", "conditions": []}
    fleet = Fleet()
    fleet.settle()
    assert "slo" not in fleet.service["status"]
    ours = {condition["type"] for condition in fleet.service["status"]["conditions"]}
    assert not ours & {"ScalingActive", "AbleToScale", "ScalingLimited", "SLOMet"}


def test_conditions_that_do_not_apply_are_absent() -> None:
    fleet = Fleet()
    fleet.settle()
    types = {condition["type"] for condition in fleet.service["status"]["conditions"]}
    assert types == {"Ready", "Progressing", "PrefillReady", "DecodeReady", "RouterReady"}


def test_a_fault_is_told_once_and_not_again_after_a_restart() -> None:
    fleet = Fleet()
    fleet.step()
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    fleet.pod("chat-0")["status"] = {"containerStatuses": [{"name": "engine", "state": {"waiting": waiting}}]}
    assert [notice.reason for notice in fleet.step().events] == ["WorkerFailing"]
    # The live status is the only memory.
    assert fleet.step().events == ()
