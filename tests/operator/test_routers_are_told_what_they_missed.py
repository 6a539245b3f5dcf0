"""A router whose watch was cut keeps what it had (measured): it is asked, believed about itself, and corrected."""

from dataclasses import replace

import httpx
import pytest

from tandem_api import names
from tandem_operator.carry_out.router_lists import take_off
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.routing import Routing, read_routings
from tandem_operator.observe.timestamp import format_time
from tandem_operator.plan.actions import Delete, Drain, Flip, Mark, Plan, Unlist
from tandem_operator.plan.plan import plan
from tests.operator.fleet import SETTINGS, Fleet, colocated, spec


def fleet_of(workers: int) -> Fleet:
    """Each worker has an address of its own, and has been ready for a while."""
    fleet = Fleet(colocated(workers={"minReplicas": 1, "maxReplicas": 8}))
    fleet.settle()
    fleet.scale("workers", workers)
    fleet.settle()
    addressed(fleet)
    return fleet


def addressed(fleet: Fleet) -> None:
    for pod in fleet.pods():
        pod["status"]["podIP"] = address(pod["metadata"]["name"])
        pod["status"]["conditions"][0]["lastTransitionTime"] = format_time(fleet.now)


def address(name: str) -> str:
    return f"10.0.0.{name.removeprefix('chat-')}"


def routing(*workers: str, router: str = "router-a") -> Routing:
    return Routing(router, "10.9.0.1", {address(name): f"http://{address(name)}:8000" for name in workers})


def seen(fleet: Fleet, *routings: Routing) -> Observed:
    return replace(fleet.observed(), routings=routings)


def planned(fleet: Fleet, *routings: Routing) -> Plan:
    return plan(seen(fleet, *routings), fleet.now, SETTINGS)


def draining(fleet: Fleet) -> str:
    (pod,) = [pod.name for pod in fleet.observed().pods if pod.draining]
    return pod


def test_a_list_that_is_right_is_left_alone() -> None:
    fleet = fleet_of(2)
    fleet.now += 1000
    decided = planned(fleet, routing("chat-0", "chat-1"))
    assert (decided.unlists, decided.marks) == ((), ())


def test_an_address_that_is_nobodys_is_taken_off() -> None:
    """The next pod with this address may be another service's."""
    fleet = fleet_of(1)
    (unlist,) = planned(fleet, routing("chat-0", "chat-7")).unlists
    assert unlist == Unlist(
        "router-a", "10.9.0.1", "http://10.0.0.7:8000", "10.0.0.7 is no worker of this service"
    )


def test_while_a_workers_address_is_unknown_nobody_is_taken_for_a_stranger() -> None:
    fleet = fleet_of(2)
    del fleet.pod("chat-1")["status"]["podIP"]
    assert planned(fleet, routing("chat-0", "chat-1")).unlists == ()


def test_save_one_that_was_a_workers() -> None:
    fleet = fleet_of(2)
    del fleet.pod("chat-1")["status"]["podIP"]
    lost = replace(seen(fleet, routing("chat-0", "chat-7")), former_addresses=frozenset({address("chat-7")}))
    assert [unlist.url for unlist in plan(lost, fleet.now, SETTINGS).unlists] == ["http://10.0.0.7:8000"]


def test_every_router_is_corrected_by_itself() -> None:
    fleet = fleet_of(1)
    lists = routing("chat-0", "chat-7"), routing("chat-0", router="router-b")
    assert [unlist.router for unlist in planned(fleet, *lists).unlists] == ["router-a"]


def test_a_drained_worker_that_a_router_still_lists_is_not_let_go() -> None:
    fleet = fleet_of(2)
    fleet.scale("workers", 1)
    fleet.step()
    leaving = draining(fleet)
    for _ in range(20):
        fleet.now += 1
        decided = planned(fleet, routing("chat-0", "chat-1"))
        assert not [action for action in decided.actions if isinstance(action, Delete)]
    assert [unlist.url for unlist in decided.unlists] == [f"http://{address(leaving)}:8000"]
    stays = next(name for name in ("chat-0", "chat-1") if name != leaving)
    decided = planned(fleet, routing(stays))
    assert [action.pod for action in decided.actions if isinstance(action, Delete)] == [leaving]


def test_at_its_deadline_it_goes_all_the_same() -> None:
    fleet = fleet_of(2)
    fleet.scale("workers", 1)
    fleet.step()
    fleet.now += 301
    decided = planned(fleet, routing("chat-0", "chat-1"))
    assert [action.pod for action in decided.actions if isinstance(action, Delete)]


def test_a_router_has_a_moment_to_hear_of_it_by_itself() -> None:
    fleet = fleet_of(2)
    fleet.scale("workers", 1)
    fleet.step()
    fleet.now += 1
    assert planned(fleet, routing("chat-0", "chat-1")).unlists == ()


def test_a_worker_that_is_being_deleted_is_taken_off_at_once() -> None:
    fleet = fleet_of(2)
    fleet.pod("chat-1")["metadata"]["deletionTimestamp"] = format_time(fleet.now + 600)
    (unlist,) = planned(fleet, routing("chat-0", "chat-1")).unlists
    assert unlist.reason == "chat-1 is being deleted"


def test_it_changes_its_role_only_when_every_router_let_go() -> None:
    fleet = Fleet(spec())
    fleet.settle()
    fleet.scale("prefill", 2)
    fleet.settle()
    addressed(fleet)
    fleet.scale("prefill", 1)
    fleet.scale("decode", 2)
    fleet.step()
    (drain,) = [action for action in fleet.log if isinstance(action, Drain)]
    fleet.now += 2
    everyone = routing("chat-0", "chat-1", "chat-2")
    assert not [action for action in planned(fleet, everyone).actions if isinstance(action, Flip)]
    others = routing(*({"chat-0", "chat-1", "chat-2"} - {drain.pod}))
    assert [action.pod for action in planned(fleet, others).actions if isinstance(action, Flip)] == [
        drain.pod
    ]


def test_a_worker_that_is_on_no_list_after_long_is_shown_anew() -> None:
    fleet = fleet_of(2)
    fleet.now += 60
    assert planned(fleet, routing("chat-0")).marks == ()
    fleet.now += 40
    (mark,) = planned(fleet, routing("chat-0")).marks
    relisted = {names.ANNOTATION_RELISTED_AT: format_time(fleet.now)}
    assert mark == Mark(
        "chat-1", fleet.pod("chat-1")["metadata"]["uid"], {names.LABEL_SERVING: None}, relisted
    )


def test_and_no_more_often_than_that() -> None:
    fleet = fleet_of(2)
    fleet.now += 100
    annotations = fleet.pod("chat-1")["metadata"].setdefault("annotations", {})
    annotations[names.ANNOTATION_RELISTED_AT] = format_time(fleet.now)
    fleet.now += 60
    assert planned(fleet, routing("chat-0")).marks == ()


ROUTER = PodView(name="router-a", uid="r", role="", ip="10.9.0.1", started=True, ready=True)


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (httpx.Response(200, json={"urls": ["http://10.0.0.1:8000", "http://[fd00::1]:8000"]}), True),
        (httpx.Response(200, json={"urls": []}), True),
        (httpx.Response(404), False),
        (httpx.Response(200, json={"urls": None}), False),
        (httpx.Response(200, text="<html>"), False),
        (httpx.Response(200, json=[1]), False),
    ],
)
async def test_a_router_of_another_kind_tells_nothing(answer: httpx.Response, known: bool) -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer)) as http:
        found = await read_routings(http, [ROUTER])
    assert bool(found) is known
    if known and found[0].workers:
        assert set(found[0].workers) == {"10.0.0.1", "fd00::1"}


async def test_a_router_that_does_not_answer_stops_nobody() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
        assert await read_routings(http, [ROUTER]) == ()
        await take_off(http, [Unlist("router-a", "10.9.0.1", "http://10.0.0.7:8000", "gone")])


def test_without_any_answer_the_label_and_the_time_to_settle_decide_as_before() -> None:
    fleet = fleet_of(2)
    fleet.scale("workers", 1)
    fleet.settle()
    assert fleet.counts() == {"workers": 1}
