"""Flip: what one role has too many of serves the other after seconds, with its weights and its GPUs."""

from typing import Any

import pytest

from tandem_api import names
from tandem_operator.observe.timestamp import format_time
from tandem_operator.plan.actions import Create, Delete, Drain, Flip, Undrain
from tests.operator.fleet import START, Fleet, Manifest, spec


def two_and_one(wish: Manifest | None = None) -> Fleet:
    """prefill 2, decode 1, at rest for a long time."""
    fleet = Fleet(wish or spec())
    fleet.settle()
    fleet.scale("prefill", 2)
    fleet.settle()
    fleet.now += 1000
    fleet.log.clear()
    return fleet


def turn(fleet: Fleet, *, prefill: int = 1, decode: int = 2) -> None:
    fleet.scale("prefill", prefill)
    fleet.scale("decode", decode)


def seconds_until(fleet: Fleet, kind: type, *, limit: int = 400) -> float:
    """Until the first action of this kind; the kubelet stands still."""
    began = fleet.now
    while fleet.now - began < limit:
        if any(isinstance(action, kind) for action in fleet.step().actions):
            return fleet.now - began
        fleet.now += 1
    raise AssertionError(f"no {kind.__name__} within {limit} s")


def kinds(fleet: Fleet) -> list[type]:
    return [type(action) for action in fleet.log]


def test_an_idle_worker_serves_in_its_new_role_within_five_seconds() -> None:
    fleet = two_and_one()
    before = {pod["metadata"]["uid"] for pod in fleet.pods()}
    turn(fleet)
    assert seconds_until(fleet, Flip) <= 4
    fleet.settle()
    assert kinds(fleet) == [Drain, Flip]
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    assert {pod["metadata"]["uid"] for pod in fleet.pods()} == before
    assert all(pod.serving and not pod.draining for pod in fleet.observed().pods)


def test_what_changes_is_told_with_the_reason() -> None:
    fleet = two_and_one()
    fleet.events.clear()
    turn(fleet)
    fleet.settle()
    flipped = [event.message for event in fleet.events if event.reason == "RoleFlipped"]
    assert flipped == ["chat-2 becomes a decode worker: decode 1 -> 2, and prefill has one too many"]


def test_both_ways() -> None:
    fleet = two_and_one()
    turn(fleet, prefill=3, decode=1)
    fleet.settle()
    fleet.scale("decode", 2)
    fleet.settle()
    fleet.log.clear()
    turn(fleet, prefill=4, decode=1)
    fleet.settle()
    assert kinds(fleet) == [Drain, Flip]
    assert fleet.counts() == {"prefill": 4, "decode": 1}


def test_a_busy_worker_finishes_first() -> None:
    fleet = two_and_one(spec(gpuBudget=3))
    for name in ("chat-0", "chat-1", "chat-2"):
        fleet.busy[name] = 4.0
    turn(fleet)
    for _ in range(100):
        fleet.step()
        fleet.now += 1
    assert kinds(fleet) == [Drain]
    fleet.busy.clear()
    assert seconds_until(fleet, Flip) <= 1


def test_a_load_that_cannot_be_read_is_not_idle() -> None:
    fleet = two_and_one(spec(gpuBudget=3))
    fleet.busy = {"chat-0": None, "chat-1": None, "chat-2": None}
    turn(fleet)
    for _ in range(30):
        fleet.step()
        fleet.now += 1
    assert Flip not in kinds(fleet)


def test_a_reading_from_before_the_router_let_go_does_not_count() -> None:
    fleet = two_and_one()
    turn(fleet)
    fleet.step()
    fleet.now += 0.5
    assert fleet.step().actions == ()


def test_with_gpus_to_spare_a_new_worker_is_started_when_the_old_one_stays_busy() -> None:
    fleet = two_and_one()
    fleet.busy = {"chat-0": 4.0, "chat-1": 4.0, "chat-2": 4.0}
    turn(fleet)
    assert 15 <= seconds_until(fleet, Create) <= 25
    fleet.busy.clear()
    fleet.run()
    fleet.settle(passes=400)
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    assert Flip not in kinds(fleet)


def test_without_a_spare_gpu_the_drain_deadline_ends_the_waiting() -> None:
    fleet = two_and_one(spec(gpuBudget=3, drain={"deadline": "60s"}))
    fleet.busy = {"chat-0": 4.0, "chat-1": 4.0, "chat-2": 4.0}
    turn(fleet)
    assert 55 <= seconds_until(fleet, Delete) <= 65
    fleet.busy.clear()
    fleet.settle(passes=400)
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    assert fleet.gpus() <= 3


@pytest.mark.parametrize(
    "decode",
    [
        {"gpus": 2},
        {"engine": {"maxSequences": 32}},
        {"template": {"spec": {"nodeSelector": {"gpu": "h200"}}}},
    ],
)
def test_other_hardware_or_other_flags_are_another_worker(decode: Manifest) -> None:
    fleet = two_and_one(spec(decode={"minReplicas": 1, "maxReplicas": 8, **decode}))
    turn(fleet)
    fleet.settle()
    assert Flip not in kinds(fleet)
    assert fleet.counts() == {"prefill": 1, "decode": 2}


def test_the_roles_own_draining_worker_comes_first() -> None:
    fleet = two_and_one()
    fleet.scale("decode", 2)
    fleet.settle()
    fleet.now += 1000
    fleet.busy = {f"chat-{number}": 3.0 for number in range(4)}
    turn(fleet, prefill=1, decode=1)
    fleet.step()
    fleet.log.clear()
    fleet.scale("decode", 2)
    fleet.step()
    assert kinds(fleet) == [Undrain]


def test_a_worker_that_never_served_changes_at_once() -> None:
    fleet = two_and_one()
    fleet.scale("prefill", 3)
    fleet.step()
    fleet.log.clear()
    turn(fleet, prefill=2, decode=2)
    fleet.step()
    assert kinds(fleet) == [Flip]
    assert fleet.counts() == {"prefill": 2, "decode": 2}


def test_a_sick_worker_is_not_passed_on() -> None:
    fleet = two_and_one()
    fleet.pod("chat-2")["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "engine", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 9,
             "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
        ],
    }  # fmt: skip
    turn(fleet)
    fleet.step()
    assert Flip not in kinds(fleet)


def born(fleet: Fleet, *, cold_start: float) -> None:
    """Every worker became ready so many seconds after it was made."""
    for pod in fleet.pods():
        pod["metadata"]["creationTimestamp"] = format_time(START)
        pod["status"]["conditions"][0]["lastTransitionTime"] = format_time(START + cold_start)


def test_a_worker_rests_for_two_cold_starts_before_it_changes_again() -> None:
    fleet = two_and_one(spec(gpuBudget=3))
    born(fleet, cold_start=60)
    turn(fleet)
    seconds_until(fleet, Flip)
    flipped = next(action.pod for action in fleet.log if isinstance(action, Flip))
    fleet.busy = {pod["metadata"]["name"]: 5.0 for pod in fleet.pods() if pod["metadata"]["name"] != flipped}
    turn(fleet, prefill=2, decode=1)
    fleet.log.clear()
    for _ in range(100):
        fleet.step()
        born(fleet, cold_start=60)
        fleet.now += 1
        # The idle one goes, for no other would; but into no other role.
        assert Flip not in kinds(fleet)
        if Delete in kinds(fleet):
            break
    else:
        raise AssertionError("it should have been let go")


def test_after_its_rest_it_may_change_again() -> None:
    fleet = two_and_one()
    born(fleet, cold_start=60)
    turn(fleet)
    seconds_until(fleet, Flip)
    fleet.now += 121
    fleet.log.clear()
    turn(fleet, prefill=2, decode=1)
    seconds_until(fleet, Flip)
    assert kinds(fleet) == [Drain, Flip]


def test_a_budget_below_what_runs_is_no_reason_to_change_roles() -> None:
    fleet = two_and_one()
    fleet.edit(gpuBudget=2)
    fleet.scale("decode", 2)
    fleet.settle()
    assert Flip not in kinds(fleet)
    assert fleet.counts() == {"prefill": 1, "decode": 1}


def test_the_kv_cache_that_it_lent_as_prefill_is_kept_for_its_lease() -> None:
    fleet = two_and_one()
    turn(fleet)
    seconds_until(fleet, Flip)
    flipped = next(action.pod for action in fleet.log if isinstance(action, Flip))
    fleet.busy = {pod["metadata"]["name"]: 5.0 for pod in fleet.pods() if pod["metadata"]["name"] != flipped}
    fleet.scale("decode", 1)
    assert seconds_until(fleet, Delete) >= fleet.settings.kv_lease_seconds - 5


def test_a_surge_of_a_rollout_may_be_the_other_roles_surplus() -> None:
    """Both roles roll out the same template; nothing is lost and nothing turns in circles."""
    fleet = two_and_one(spec(gpuBudget=4))
    fleet.edit(engine={"maxSequences": 64})
    turn(fleet)
    fleet.settle(passes=600)
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    assert len({pod.template_hash for pod in fleet.observed().pods}) == 1


def annotations_of(pod: Manifest) -> dict[str, Any]:
    return dict(pod["metadata"].get("annotations") or {})


def test_nothing_of_the_drain_is_left_on_it() -> None:
    fleet = two_and_one()
    turn(fleet)
    fleet.settle()
    left = [key for pod in fleet.pods() for key in annotations_of(pod)]
    assert left == [names.ANNOTATION_FLIPPED_AT]


def test_a_role_that_waits_for_a_worker_of_another_says_so_and_why_no_pod_is_made() -> None:
    fleet = two_and_one(spec(gpuBudget=3))
    fleet.busy = {"chat-0": 4.0, "chat-1": 4.0, "chat-2": 4.0}
    turn(fleet)
    fleet.step()
    ready, progressing = fleet.condition("DecodeReady"), fleet.condition("Progressing")
    assert (ready["status"], ready["reason"]) == ("True", "AwaitingFlip")
    assert ready["message"] == "1 of 2 decode workers serve; chat-2 comes from prefill as soon as it is free"
    assert (progressing["status"], progressing["reason"]) == ("True", "AwaitingFlip")
    assert fleet.condition("Ready")["reason"] == "AwaitingFlip"
    # While its requests end one by one there is no news, so nothing is written.
    fleet.step()
    fleet.writes = 0
    fleet.busy["chat-2"] = 3.0
    fleet.now += 1
    fleet.step()
    assert fleet.writes == 0
    fleet.busy.clear()
    fleet.settle()
    assert fleet.condition("DecodeReady")["reason"] == "AllReady"


def test_a_role_whose_promised_worker_stays_busy_is_said_to_scale_once_a_new_one_is_started() -> None:
    fleet = two_and_one()
    fleet.busy = {"chat-0": 4.0, "chat-1": 4.0, "chat-2": 4.0}
    turn(fleet)
    fleet.step()
    assert fleet.condition("DecodeReady")["reason"] == "AwaitingFlip"
    seconds_until(fleet, Create)
    assert fleet.condition("DecodeReady")["reason"] == "Scaling"
