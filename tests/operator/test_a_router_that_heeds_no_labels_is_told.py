"""sglang-router 0.3.2 keeps a pod whose labels changed, and forgets for good one that was taken off its list. So the
operator keeps the list: by ids, which it asks for, and by adding who came back."""

import json
from dataclasses import replace
from typing import Any

import httpx

from tandem_operator.carry_out.router_lists import put_on, take_off
from tandem_operator.observe.load import parse_load
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.routing import Routing, read_routings
from tandem_operator.observe.timestamp import format_time
from tandem_operator.plan.actions import Enlist, Plan, Unlist
from tandem_operator.plan.plan import plan
from tests.operator.fleet import SETTINGS, Fleet, spec


class SGLangRouter:
    """The part of sglang-router's HTTP API that is used, as measured with 0.3.2."""

    def __init__(self, *urls: str) -> None:
        self.workers: dict[str, dict[str, Any]] = {f"id-{url}": {"url": url} for url in urls}

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    def urls(self) -> set[str]:
        return {worker["url"] for worker in self.workers.values()}

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/workers" and request.method == "GET":
            listed = [{"id": key, **worker} for key, worker in self.workers.items()]
            return httpx.Response(200, json={"workers": listed, "total": len(listed)})
        if path == "/workers" and request.method == "POST":
            worker = json.loads(request.content)
            self.workers[f"id-{worker['url']}"] = worker
            return httpx.Response(202, json={"status": "accepted"})
        if path.startswith("/workers/") and request.method == "DELETE":
            gone = self.workers.pop(path.removeprefix("/workers/"), None)
            return httpx.Response(202 if gone else 400)
        return httpx.Response(404)


ROUTER = PodView(name="router-a", uid="u", role="", ready=True, started=True, ip="10.9.0.1")


async def test_its_list_is_read() -> None:
    async with SGLangRouter("http://10.0.0.1:8000").client() as http:
        (routing,) = await read_routings(http, [ROUTER])
    assert routing == Routing("router-a", "10.9.0.1", {"10.0.0.1": "http://10.0.0.1:8000"})


async def test_a_worker_is_taken_off_and_put_on_again() -> None:
    router = SGLangRouter("http://10.0.0.1:8000", "http://10.0.0.2:8000")
    async with router.client() as http:
        await take_off(http, [Unlist("router-a", "10.9.0.1", "http://10.0.0.2:8000", "it left")])
        assert router.urls() == {"http://10.0.0.1:8000"}
        await take_off(http, [Unlist("router-a", "10.9.0.1", "http://10.0.0.2:8000", "it left")])
        await put_on(http, [Enlist("router-a", "10.9.0.1", "http://10.0.0.2:8000", "prefill", 8998)])
    assert router.workers["id-http://10.0.0.2:8000"] == {
        "url": "http://10.0.0.2:8000", "worker_type": "prefill", "bootstrap_port": 8998,
    }  # fmt: skip


# --- the plan ---------------------------------------------------------------------------------------------------
def fleet(engine: str = "sglang") -> Fleet:
    made = Fleet(spec(engine={"type": engine}))
    made.settle()
    for number, pod in enumerate(made.pods()):
        pod["status"]["podIP"] = f"10.0.0.{number}"
        pod["status"]["conditions"][0]["lastTransitionTime"] = format_time(made.now)
    return made


def planned(made: Fleet, *addresses: str) -> Plan:
    routing = Routing("router-a", "10.9.0.1", {address: f"http://{address}:8000" for address in addresses})
    return plan(replace(made.observed(), routings=(routing,)), made.now, SETTINGS)


def test_a_new_worker_is_left_to_the_router_for_a_moment_and_then_told() -> None:
    made = fleet()
    assert planned(made).enlists == ()
    # Nothing else would bring the look at which it is told.
    assert planned(made).requeue_seconds == SETTINGS.router_finds_seconds
    assert planned(made, "10.0.0.0", "10.0.0.1").requeue_seconds is None
    made.now += SETTINGS.router_finds_seconds
    found = {(enlist.url, enlist.role, enlist.bootstrap_port) for enlist in planned(made).enlists}
    assert found == {("http://10.0.0.0:8000", "prefill", 8998), ("http://10.0.0.1:8000", "decode", None)}
    assert planned(made, "10.0.0.0", "10.0.0.1").enlists == ()


def test_one_taken_back_from_a_drain_is_told_and_one_that_drains_is_taken_off() -> None:
    made = fleet()
    made.scale("decode", 0)
    made.edit(decode={"minReplicas": 0, "maxReplicas": 8})
    made.step()
    made.now += SETTINGS.router_hears_seconds
    assert [unlist.url for unlist in planned(made, "10.0.0.0", "10.0.0.1").unlists] == [
        "http://10.0.0.1:8000"
    ]
    assert "http://10.0.0.1:8000" not in {enlist.url for enlist in planned(made, "10.0.0.0").enlists}
    made.scale("decode", 1)
    made.step()
    made.now += SETTINGS.router_finds_seconds
    assert [enlist.url for enlist in planned(made, "10.0.0.0").enlists] == ["http://10.0.0.1:8000"]


def test_a_router_that_heeds_labels_is_never_told() -> None:
    made = fleet("vllm")
    made.now += 1000
    assert planned(made).enlists == ()
    assert planned(made).marks, "its way is the label"
    sglang = fleet()
    sglang.now += 1000
    assert planned(sglang).marks == (), "and that one's is not"


def test_requests_that_sglang_holds_between_its_queues_are_open_requests() -> None:
    base = "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\nsglang:token_usage 0.25\n"
    assert parse_load(base).in_flight == 0
    assert parse_load(base).kv_usage == 0.25
    for queue in ("prefill_bootstrap", "prefill_inflight", "decode_prealloc", "decode_transfer"):
        assert parse_load(f"{base}sglang:num_{queue}_queue_reqs 2\n").in_flight == 2
