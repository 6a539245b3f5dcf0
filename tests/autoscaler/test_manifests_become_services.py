"""Field cases B2, B6, B12, B14, C2: what counts as a worker, and manifests that nobody can understand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api import names
from tandem_autoscaler.fleet.observe import epoch_seconds, observe, observe_pod


def service(**spec: Any) -> dict[str, Any]:
    base = {
        "mode": "Disaggregated", "model": {"uri": "path:///m"}, "slo": {"ttft": "1s", "tpot": "40ms"},
        "prefill": {"minReplicas": 0, "maxReplicas": 4}, "decode": {"minReplicas": 1, "maxReplicas": 6, "gpus": 2},
    }  # fmt: skip
    return {
        "metadata": {"name": "chat", "namespace": "n", "uid": "u", "generation": 3},
        "spec": {**base, **spec},
    }


def pool(role: str, replicas: int) -> dict[str, Any]:
    spec = {"service": "chat", "role": role, "replicas": replicas}
    return {"metadata": {"name": names.pool_name("chat", role), "namespace": "n"}, "spec": spec}


def pod(name: str = "chat-0", *, ready: bool = True, serving: bool = True, **more: Any) -> dict[str, Any]:
    labels = {
        **names.managed_labels("chat", names.COMPONENT_WORKER),
        **names.worker_labels("chat", names.PREFILL),
    }
    if serving:
        labels[names.LABEL_SERVING] = "true"
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:01:00Z"}
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": name,
        "labels": labels,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    metadata |= more.pop("metadata", {})
    return {
        "metadata": metadata,
        "status": {"podIP": "10.0.0.1", "phase": "Running", "conditions": [condition], **more},
    }


def test_targets_limits_and_the_pools_own_replicas_are_read() -> None:
    (found,), broken = observe([service(gpuBudget=9)], [pool("prefill", 0), pool("decode", 3)], [pod()])
    assert not broken
    assert found.targets is not None and (found.targets.ttft_seconds, found.targets.tpot_seconds) == (
        1.0,
        0.04,
    )
    assert found.pools["prefill"].replicas == 0 and found.pools["prefill"].minimum == 0
    assert found.pools["decode"].gpus == 2 and found.gpu_budget == 9
    assert [p.uid for p in found.workers(names.PREFILL)] == ["chat-0"]


def test_with_an_inference_pool_requests_go_past_the_router() -> None:
    gateway = {"parents": [{"name": "public"}]}
    pool_of_workers = {"endpointPicker": {"name": "epp"}}
    wish = {"mode": "Colocated", "prefill": None, "decode": None}
    beside = service(router={"gateway": gateway}, **wish)
    past = service(router={"gateway": {**gateway, "inferencePool": pool_of_workers}}, **wish)
    (found,), _ = observe([beside], [], [])
    assert not found.past_the_router
    (found,), _ = observe([past], [], [])
    assert found.past_the_router


def test_a_pool_that_does_not_exist_yet_is_not_scaled() -> None:
    (found,), _ = observe([service()], [pool("prefill", 1)], [])
    assert set(found.pools) == {"prefill"}


def test_the_same_names_in_another_namespace_are_another_service() -> None:
    elsewhere = pool("prefill", 7)
    elsewhere["metadata"]["namespace"] = "other"
    (found,), _ = observe([service()], [elsewhere], [])
    assert found.pools == {}


def test_one_broken_spec_is_told_and_the_others_are_read() -> None:
    bad = service(slo={"ttft": "soon", "tpot": "1s"})
    bad["metadata"] = {"name": "bad", "namespace": "n"}
    found, broken = observe([bad, service()], [], [])
    assert [s.name for s in found] == ["chat"]
    assert "slo.ttft" in broken[("n", "bad")] and "\n" not in broken[("n", "bad")]


@pytest.mark.parametrize(
    ("manifest", "state"),
    [
        (pod(), "ready"),
        (pod(ready=False), "starting"),
        (pod(ready=False, serving=False), "starting"),
        (pod(serving=False), "draining"),
        (pod(metadata={"deletionTimestamp": "2026-01-01T00:02:00Z"}), "draining"),
        (pod(metadata={"annotations": {names.ANNOTATION_DRAIN_STARTED: "x"}}), "draining"),
    ],
    ids=["ready", "starting", "starting without label", "left the router", "terminating", "drain begun"],
)
def test_a_pod_is_ready_starting_or_draining(manifest: dict[str, Any], state: str) -> None:
    found = observe_pod(manifest)
    assert found is not None
    assert {"ready": found.ready, "starting": found.starting, "draining": found.draining} == {
        name: name == state for name in ("ready", "starting", "draining")
    }


@pytest.mark.parametrize(
    ("status", "stuck"),
    [
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}, True),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, True),
        ({"initContainerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, True),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, False),
        ({"containerStatuses": None, "conditions": None}, False),
    ],
)
def test_a_pod_that_cannot_start_is_told_from_one_that_is_starting(
    status: dict[str, Any], stuck: bool
) -> None:
    found = observe_pod(pod(ready=False, **status))
    assert found is not None and found.stuck is stuck


def test_a_finished_pod_is_no_worker() -> None:
    assert observe_pod(pod(phase="Failed")) is None


@pytest.mark.parametrize(("value", "paused"), [("true", True), ("", True), ("false", False), (None, False)])
def test_the_annotation_pauses(value: str | None, paused: bool) -> None:
    manifest = service()
    if value is not None:
        manifest["metadata"]["annotations"] = {names.ANNOTATION_PAUSED: value}
    (found,), _ = observe([manifest], [], [])
    assert found.paused is paused


@pytest.mark.parametrize(("engine", "on"), [({}, False), ({"lateDemotion": True}, True)])
def test_the_autoscaler_knows_whether_late_demotion_is_on(engine: dict[str, Any], on: bool) -> None:
    (found,), _ = observe([service(engine=engine)], [], [])
    assert found.late_demotion is on


@given(st.one_of(st.none(), st.text(max_size=30)))
def test_a_broken_time_is_unknown(text: str | None) -> None:
    assert epoch_seconds(text) is None or isinstance(epoch_seconds(text), float)
