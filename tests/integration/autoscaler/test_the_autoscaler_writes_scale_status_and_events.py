"""On a real API server: what is written, when, and above all when nothing is."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tandem_api import names
from tandem_api.kubernetes.client import ApiServer
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.loop import Autoscaler
from tandem_autoscaler.signals.scrape import ScrapeSource
from tests.integration.autoscaler.conftest import Clock, Engine, World

pytestmark = pytest.mark.integration
TICK_SECONDS = 5.0


@pytest.fixture
async def autoscaler(api: ApiServer, world: World, clock: Clock) -> Any:
    source = ScrapeSource(timeout_seconds=1.0, clock=clock)
    yield Autoscaler(api, source, Settings(), namespace=world.namespace, identity="test", clock=clock)
    await source.close()


async def ticks(
    autoscaler: Autoscaler, clock: Clock, count: int, between: Callable[[], None] = lambda: None
) -> None:
    for _ in range(count):
        between()
        await autoscaler.tick()
        clock.now += TICK_SECONDS


def busy_prefill(prefill: Engine, decode: Engine) -> Callable[[], None]:
    """Two prompts a second of 0.7 s each on one worker: more than it can do."""

    def five_seconds() -> None:
        prefill.exported.prefill(7, tokens=1000, seconds=2.5)
        prefill.exported.running += 3
        decode.exported.decode(7, tokens=5, seconds_per_token=0.02, batch=1)

    return five_seconds


def busy_decode(prefill: Engine, decode: Engine) -> Callable[[], None]:
    """Short prompts, long answers: ten sequences at once on one worker, each token late."""

    def five_seconds() -> None:
        prefill.exported.prefill(2, tokens=20, seconds=0.05)
        decode.exported.decode(2, tokens=120, seconds_per_token=0.2, batch=10)
        decode.exported.running = 10

    return five_seconds


async def test_prompt_heavy_load_raises_prefill_and_leaves_decode(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service()
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 2)
    await ticks(autoscaler, clock, 5, busy_prefill(prefill, decode))
    assert world.replicas(names.PREFILL) > 1
    assert world.replicas(names.DECODE) == 1
    event = world.events("ScaledUp")[0]
    assert event["note"].startswith("prefill 1 -> ") and "prompts/s" in event["note"]
    assert event["regarding"]["name"] == "chat"


async def test_output_heavy_load_raises_decode_and_leaves_prefill(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service()
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 2)
    await ticks(autoscaler, clock, 5, busy_decode(prefill, decode))
    assert world.replicas(names.DECODE) > 1
    assert world.replicas(names.PREFILL) == 1


async def test_the_status_explains_the_decision_in_numbers(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service()
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 7, busy_prefill(prefill, decode))
    status = world.status()
    newest = status["autoscaling"]["history"][-1]
    assert newest["role"] == names.PREFILL and newest["from"] == 1 and newest["to"] > 1
    numbers = status["autoscaling"]["roles"][names.PREFILL]["numbers"]
    assert float(numbers["promptsPerSecond"]) > 1 and float(numbers["secondsPerPrompt"]) > 0.3
    assert status["slo"]["ttft"]["target"] == "1s" and status["slo"]["ttft"]["measured"].endswith("s")
    assert world.condition("ScalingActive")["reason"] == "MetricsOK"
    assert world.condition("AbleToScale")["status"] == "True"
    assert world.condition("SLOMet")["status"] == "False"


async def test_the_status_of_the_operator_stays_beside_ours(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service()
    world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    ready = {
        "type": "Ready", "status": "True", "reason": "AllReady", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    path = f"/apis/{names.API_VERSION}/namespaces/{world.namespace}/{names.INFERENCE_SERVICES}/chat/status"
    body = {
        "apiVersion": names.API_VERSION, "kind": names.INFERENCE_SERVICE, "metadata": {"name": "chat"},
        "status": {"summary": "2/2", "conditions": [ready]},
    }  # fmt: skip
    query = f"?fieldManager={names.FIELD_MANAGER_OPERATOR}&force=true"
    world.cluster.api.patch(path + query, body, kind="apply-patch")
    await ticks(autoscaler, clock, 2)
    assert world.condition("Ready")["status"] == "True"
    assert world.status()["summary"] == "2/2"
    assert world.condition("ScalingActive")["status"] == "True"


async def test_an_idle_service_causes_no_write(world: World, autoscaler: Autoscaler, clock: Clock) -> None:
    world.create_service()
    world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 6)
    mark = world.cluster.audit.mark()
    await ticks(autoscaler, clock, 12)
    assert [w for w in world.cluster.audit.writes_since(mark) if w.namespace == world.namespace] == []


async def test_a_steady_load_causes_almost_no_write(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service()
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)

    def light() -> None:
        prefill.exported.prefill(2, tokens=200, seconds=0.1)
        decode.exported.decode(2, tokens=20, seconds_per_token=0.02, batch=1)

    await ticks(autoscaler, clock, 25, light)
    mark = world.cluster.audit.mark()
    await ticks(autoscaler, clock, 12, light)
    assert len([w for w in world.cluster.audit.writes_since(mark) if w.namespace == world.namespace]) <= 1


async def test_recommend_writes_status_and_one_event_but_no_scale(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service(autoscaling={"mode": "Recommend"})
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 2)
    await ticks(autoscaler, clock, 5, busy_prefill(prefill, decode))
    assert world.replicas(names.PREFILL) == 1
    assert world.status()["autoscaling"]["roles"][names.PREFILL]["to"] > 1
    assert world.condition("ScalingActive")["reason"] == "RecommendOnly"
    told = [event["note"].split(":")[0] for event in world.events("ScaleRecommended")]
    assert told and len(told) == len(set(told))


@pytest.mark.parametrize(("mode", "reason"), [("External", "ScalingExternal"), ("Off", "ScalingOff")])
async def test_in_other_hands_only_the_slo_is_measured(
    world: World, autoscaler: Autoscaler, clock: Clock, mode: str, reason: str
) -> None:
    world.create_service(autoscaling={"mode": mode})
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 2)
    mark = world.cluster.audit.mark()
    await ticks(autoscaler, clock, 6, busy_prefill(prefill, decode))
    active = world.condition("ScalingActive")
    assert (active["status"], active["reason"]) == ("False", reason)
    assert world.condition("AbleToScale") == {}
    assert world.status()["slo"]["ttft"]["measured"]
    written = {w.resource for w in world.cluster.audit.writes_since(mark) if w.namespace == world.namespace}
    assert written <= {f"{names.GROUP}/{names.INFERENCE_SERVICES}/status"} | {"pods/status", "pods"}


async def test_a_paused_service_is_left_alone(world: World, autoscaler: Autoscaler, clock: Clock) -> None:
    world.create_service()
    world.edit({"metadata": {"annotations": {names.ANNOTATION_PAUSED: "true"}}})
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 6, busy_prefill(prefill, decode))
    assert world.replicas(names.PREFILL) == 1
    assert world.condition("ScalingActive")["reason"] == "ScalingPaused"


async def test_kubectl_scale_is_honoured_for_the_confirmation_time(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service(autoscaling={"scaleDown": {"confirm": "30s"}})
    world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    await ticks(autoscaler, clock, 20)
    world.cluster.kubectl("scale", "wpool", "chat-decode", "--replicas=3", "-n", world.namespace)
    await ticks(autoscaler, clock, 5)
    assert world.replicas(names.DECODE) == 3
    await ticks(autoscaler, clock, 20)
    assert world.replicas(names.DECODE) < 3


async def test_one_broken_service_does_not_stop_the_others(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service("alone", model={"uri": "path:///model"})
    world.create_service()
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    world.add_worker(names.PREFILL, "alone").close()
    world.engines.pop("alone-2")
    await ticks(autoscaler, clock, 2)
    await ticks(autoscaler, clock, 5, busy_prefill(prefill, decode))
    assert world.replicas(names.PREFILL) > 1
    assert world.condition("ScalingActive", "alone")["status"] != "True"


async def test_a_refused_write_becomes_a_condition_and_is_tried_again(
    world: World, autoscaler: Autoscaler, clock: Clock
) -> None:
    world.create_service()
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"no-scale-{world.namespace}"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [names.GROUP], "apiVersions": ["*"], "operations": ["UPDATE"],
                     "resources": [f"{names.WORKER_POOLS}/scale"]}
                ]
            },
            "validations": [{"expression": "false", "message": "the quota is used up"}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"no-scale-{world.namespace}"},
        "spec": {
            "policyName": f"no-scale-{world.namespace}", "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
            },
        },
    }  # fmt: skip
    root = "/apis/admissionregistration.k8s.io/v1"
    world.cluster.api.post(f"{root}/validatingadmissionpolicies", policy)
    world.cluster.api.post(f"{root}/validatingadmissionpolicybindings", binding)
    # The policy takes effect when the API server has compiled it.
    for _ in range(100):
        try:
            world.cluster.kubectl("scale", "wpool", "chat-decode", "--replicas=1", "-n", world.namespace)
            world.cluster.kubectl("scale", "wpool", "chat-decode", "--replicas=2", "-n", world.namespace)
            world.cluster.kubectl("scale", "wpool", "chat-decode", "--replicas=1", "-n", world.namespace)
        except Exception:
            break
        await asyncio.sleep(0.1)
    try:
        await ticks(autoscaler, clock, 7, busy_prefill(prefill, decode))
        able = world.condition("AbleToScale")
        assert able["status"] == "False" and "the quota is used up" in able["message"]
        assert len(world.events("ScaleBlocked")) == 1
    finally:
        world.cluster.api.delete(f"{root}/validatingadmissionpolicybindings/no-scale-{world.namespace}")
        world.cluster.api.delete(f"{root}/validatingadmissionpolicies/no-scale-{world.namespace}")
    for _ in range(100):
        await ticks(autoscaler, clock, 1, busy_prefill(prefill, decode))
        if world.replicas(names.PREFILL) > 1:
            break
        await asyncio.sleep(0.1)
    await ticks(autoscaler, clock, 4, busy_prefill(prefill, decode))
    assert world.condition("AbleToScale")["status"] == "True"
