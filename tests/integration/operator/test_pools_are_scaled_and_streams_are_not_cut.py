"""Scaling by the pool's /scale: up at once, down only after the engine is idle."""

import time

import pytest

from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, colocated, disaggregated, eventually

pytestmark = pytest.mark.integration


def test_scaling_one_role_leaves_the_other_alone(place: Place, operator: Operator) -> None:
    place.apply("chat", disaggregated())
    place.run_all("chat", count=2)
    before = {pod["metadata"]["uid"] for pod in place.workers("chat")}

    place.scale("chat-prefill", 3)

    pods = eventually(lambda: (found := place.workers("chat")) and len(found) == 4 and found)
    assert before <= {pod["metadata"]["uid"] for pod in pods}
    assert len(place.workers("chat", role="decode")) == 1


def test_a_busy_worker_leaves_the_router_but_lives_until_it_is_idle(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    place.run_all("chat", count=1)
    eventually(lambda: place.items(names.WORKER_POOLS))
    place.scale("chat-workers", 2)
    place.run_all("chat", count=2)
    eventually(lambda: place.service("chat")["status"]["summary"] == "2/2")
    for engine in place.engines.values():
        engine.running = 3.0

    place.scale("chat-workers", 1)

    leaving = eventually(lambda: place.workers("chat", serving=False))[0]
    assert len(place.workers("chat", serving=True)) == 1
    assert names.ANNOTATION_DRAIN_STARTED in leaving["metadata"]["annotations"]
    status = eventually(
        lambda: (s := place.service("chat")["status"]) and s["roles"]["workers"]["draining"] == 1 and s
    )
    assert status["roles"]["workers"]["desired"] == 1
    # Longer than an idle worker would take (settle 3 s + quiet 2 s): it is the requests that hold it.
    time.sleep(7)
    assert place.workers("chat", serving=False)

    place.engines[leaving["metadata"]["name"]].running = 0.0
    eventually(lambda: len(place.workers("chat")) == 1, seconds=15)


def test_the_least_busy_worker_is_let_go(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated(workers={"minReplicas": 1, "maxReplicas": 3, "gpus": 1}))
    place.run_all("chat", count=1)
    eventually(lambda: place.items(names.WORKER_POOLS))
    place.scale("chat-workers", 3)
    place.run_all("chat", count=3)
    eventually(lambda: place.service("chat")["status"]["summary"] == "3/3")
    for name, running in (("chat-0", 1.0), ("chat-1", 9.0), ("chat-2", 5.0)):
        place.engines[name].running = running

    place.scale("chat-workers", 2)

    assert eventually(lambda: place.workers("chat", serving=False))[0]["metadata"]["name"] == "chat-0"


def test_a_worker_that_never_served_goes_at_once(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated())
    place.run_all("chat", count=1)
    eventually(lambda: place.items(names.WORKER_POOLS))
    place.scale("chat-workers", 3)
    eventually(lambda: len(place.workers("chat")) == 3)

    place.scale("chat-workers", 1)

    eventually(lambda: len(place.workers("chat")) == 1, seconds=3)
    assert place.workers("chat")[0]["metadata"]["name"] == "chat-0"


def test_the_gpu_budget_holds_while_another_worker_still_drains(place: Place, operator: Operator) -> None:
    # Other flags for decode, so that no worker can change its role.
    decode = {"minReplicas": 1, "maxReplicas": 8, "engine": {"maxSequences": 32}}
    place.apply("chat", disaggregated(gpuBudget=3, decode=decode))
    place.run_all("chat", count=2)
    place.scale("chat-prefill", 2)
    place.run_all("chat", count=3)
    eventually(lambda: place.service("chat")["status"]["summary"] == "3/3")
    for engine in place.engines.values():
        engine.running = 1.0

    place.scale("chat-prefill", 1)
    place.scale("chat-decode", 2)

    eventually(lambda: place.reason("chat", "DecodeReady") == "GPUBudgetExceeded")
    assert len(place.workers("chat")) == 3
    place.engines[place.workers("chat", serving=False)[0]["metadata"]["name"]].running = 0.0
    # Prefill hands over KV: it stays for its lease of 30 s.
    eventually(lambda: len(place.workers("chat", role="decode")) == 2, seconds=60)
    assert len(place.workers("chat")) == 3


def test_a_worker_changes_its_role_within_seconds_once_it_is_idle(place: Place, operator: Operator) -> None:
    place.apply("chat", disaggregated(gpuBudget=3))
    place.run_all("chat", count=2)
    place.scale("chat-prefill", 2)
    before = {pod["metadata"]["uid"] for pod in place.run_all("chat", count=3)}
    eventually(lambda: place.service("chat")["status"]["summary"] == "3/3")
    for engine in place.engines.values():
        engine.running = 1.0

    place.scale("chat-prefill", 1)
    place.scale("chat-decode", 2)
    leaving = eventually(lambda: place.workers("chat", serving=False))[0]["metadata"]["name"]
    assert len(place.workers("chat", role="decode")) == 1
    place.engines[leaving].running = 0.0
    eventually(lambda: len(place.workers("chat", role="decode", serving=True)) == 2, seconds=5)
    assert {pod["metadata"]["uid"] for pod in place.workers("chat")} == before
    told = eventually(lambda: place.told("RoleFlipped"))
    assert told == [f"{leaving} becomes a decode worker: decode 1 -> 2, and prefill has one too many"]


def test_zero_workers_are_zero(place: Place, operator: Operator) -> None:
    place.apply("chat", colocated(workers={"minReplicas": 0, "maxReplicas": 2}))
    eventually(lambda: place.reason("chat", "WorkersReady") == "ScaledToZero")
    assert place.workers("chat") == []
    place.scale("chat-workers", 1)
    eventually(lambda: len(place.workers("chat")) == 1)


def test_with_autoscaling_off_the_spec_sets_the_pool(place: Place, operator: Operator) -> None:
    off = {"mode": "Off"}
    place.apply("chat", colocated(autoscaling=off, workers={"replicas": 2, "maxReplicas": 4}))
    eventually(lambda: len(place.workers("chat")) == 2)
    place.apply("chat", colocated(autoscaling=off, workers={"replicas": 3, "maxReplicas": 4}))
    eventually(lambda: len(place.workers("chat")) == 3)
    eventually(lambda: place.items(names.WORKER_POOLS)[0]["spec"]["replicas"] == 3)


def test_a_worker_that_still_drains_is_taken_back_before_one_is_created(
    place: Place, operator: Operator
) -> None:
    place.apply("chat", colocated(gpuBudget=3))
    place.run_all("chat", count=1)
    eventually(lambda: place.items(names.WORKER_POOLS))
    place.scale("chat-workers", 2)
    before = {pod["metadata"]["uid"] for pod in place.run_all("chat", count=2)}
    eventually(lambda: place.service("chat")["status"]["summary"] == "2/2")
    for engine in place.engines.values():
        engine.running = 3.0
    place.scale("chat-workers", 1)
    leaving = eventually(lambda: place.workers("chat", serving=False))[0]["metadata"]["name"]
    eventually(lambda: place.service("chat")["status"]["roles"]["workers"]["draining"] == 1)
    mark = place.cluster.audit.mark()

    place.scale("chat-workers", 2)

    eventually(lambda: len(place.workers("chat", serving=True)) == 2)
    eventually(lambda: place.service("chat")["status"]["summary"] == "2/2")
    # Past the drain's settling and quiet time: an end that was still planned would come now.
    for engine in place.engines.values():
        engine.running = 0.0
    time.sleep(7)
    assert {pod["metadata"]["uid"] for pod in place.workers("chat", serving=True)} == before
    returned = next(pod for pod in place.workers("chat") if pod["metadata"]["name"] == leaving)
    assert not [key for key in returned["metadata"].get("annotations", {}) if "drain" in key]
    pods = [write for write in operator.writes_since(mark) if write.resource == "pods"]
    assert [(write.verb, write.name) for write in pods] == [("patch", leaving)]
    assert place.told("WorkerUndrained") == [f"{leaving} comes back to the router: workers 1 -> 2"]
