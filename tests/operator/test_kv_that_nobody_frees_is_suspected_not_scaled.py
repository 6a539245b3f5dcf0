"""KVLeakSuspected (field case F5): cache that is held for ten minutes with nothing running is told, and only told."""

from typing import cast

import httpx

from tandem_api.kubernetes.cluster import Cluster
from tandem_operator.carry_out.carry_out import CarryOut
from tandem_operator.carry_out.event_writer import EventWriter
from tandem_operator.observe.load import Load, LoadBook, parse_load
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.plan import plan
from tandem_operator.plan.settings import Settings
from tandem_operator.reconcile import Reconciler
from tandem_operator.watch.kinds import WATCHED
from tandem_operator.watch.world import World
from tests.operator.fleet import SETTINGS, START, Fleet, Manifest, colocated, spec
from tests.operator.test_our_own_writes_bring_the_next_look import Dictionary

POD = PodView("chat-0", "uid-0", "prefill")


def since(*readings: Load | None, every: float = 60.0) -> float | None:
    """After so many readings: since when the cache is held for nobody, in seconds from the first."""
    book, found = LoadBook(), None
    for number, reading in enumerate(readings):
        found = book.note(POD, reading, now=number * every, settle_seconds=0).stranded_since
    return found


def held(kv: float | None, *, running: float | None = 0.0, in_flight: float | None = 0.0) -> Load:
    return Load(in_flight=in_flight, running=running, kv_usage=kv)


def test_the_time_is_counted_from_the_first_of_an_unbroken_run() -> None:
    assert since(held(0.0), held(0.6), held(0.5), held(0.7)) == 60.0
    assert since(held(0.6), held(0.05), held(0.6)) == 120.0
    assert since(held(0.6), held(0.6, running=1.0), held(0.6)) == 120.0
    assert since(held(0.6), held(0.0)) is None


def test_requests_that_only_wait_do_not_excuse_it() -> None:
    """They wait because the leaked blocks leave them no room: the worst case of all."""
    assert since(held(0.9, in_flight=7.0), held(0.9, in_flight=8.0)) == 0.0


def test_a_reading_that_fails_proves_nothing_either_way() -> None:
    assert since(held(0.6), Load(), held(0.6)) == 0.0
    assert since(held(0.6), None, held(0.6)) == 0.0
    assert since(Load(), Load()) is None


def test_running_is_read_apart_from_what_waits_and_what_the_gate_holds() -> None:
    text = "vllm:num_requests_running 0\nvllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.5\n"
    assert parse_load(text + "tandem:requests_in_flight 4\n") == Load(
        in_flight=4.0, running=0.0, kv_usage=0.5
    )
    assert parse_load("vllm:kv_cache_usage_perc 0.5\n").running is None


def looked_at(fleet: Fleet, **stranded: float) -> Manifest:
    """The status after a look with these workers' caches held since then."""
    by_name = {name.replace("_", "-"): moment for name, moment in stranded.items()}
    seen = Observed(**{**fleet.observed().__dict__, "stranded": by_name})
    decided = plan(seen, fleet.now, fleet.settings)
    assert decided.actions == (), "it is told, and only told"
    assert decided.status is not None
    return dict(decided.status)


def suspicion(status: Manifest) -> Manifest | None:
    return next((each for each in status["conditions"] if each["type"] == "KVLeakSuspected"), None)


def test_after_ten_minutes_the_workers_are_named() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.now += 1000
    assert suspicion(looked_at(fleet, chat_0=fleet.now - 599)) is None
    found = suspicion(looked_at(fleet, chat_0=fleet.now - 600, chat_1=fleet.now - 10))
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "KVNotReleased")
    assert found["message"] == (
        "KV cache has been held for 10 min and more with no request running on chat-0; "
        "delete it to have it replaced"
    )
    # Words that stay the same, or the status would be written each minute.
    assert suspicion(looked_at(fleet, chat_0=fleet.now - 4000)) == found


def test_a_service_that_serves_is_ready_all_the_same() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.now += 1000
    status = looked_at(fleet, chat_0=fleet.now - 900)
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"


def test_the_warning_comes_once() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.now += 1000
    seen = Observed(**{**fleet.observed().__dict__, "stranded": {"chat-0": fleet.now - 900}})
    first = plan(seen, fleet.now, SETTINGS)
    assert ["KVNotReleased" in event.message for event in first.events] == [True]
    again = Observed(**{**seen.__dict__, "status": first.status})
    assert plan(again, fleet.now + 60, SETTINGS).events == ()


async def questions(wish: Manifest, *, minutes: int) -> int:
    """Times that a steady fleet's engines are asked for their load."""
    fleet = Fleet(wish)
    fleet.settle()
    world, asked, now = World(), 0, START

    async def engine(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(200, text="vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")

    kinds = {kind.plural: kind for kind in WATCHED}
    world.put(kinds["inferenceservices"], fleet.service)
    for (plural, _), manifest in fleet.objects.items():
        world.put(kinds[plural], manifest)
    cluster = cast(Cluster, Dictionary())
    async with httpx.AsyncClient(transport=httpx.MockTransport(engine)) as http:
        events = EventWriter(cluster, instance="test", clock=lambda: now)
        carry_out = CarryOut(cluster, world, events, clock=lambda: now)
        reconcile = Reconciler(cluster, world, carry_out, http, settings=Settings(), clock=lambda: now)
        for _ in range(minutes * 6):
            await reconcile(("team", "chat"))
            now += 10
    return asked


async def test_a_steady_disaggregated_fleet_is_asked_once_a_minute_and_another_never() -> None:
    assert await questions(spec(), minutes=5) == 2 * 5
    assert await questions(colocated(), minutes=5) == 0
