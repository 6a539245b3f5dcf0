"""A fault is a condition with the true reason within 30 seconds, and goes away when the cause does."""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.demo.stage import Stage
from e2e.scenarios.services import engine_container, simulated, with_workers

SECONDS = 30


def condition(stage: Stage, namespace: str, service: str, kind: str) -> dict[str, Any]:
    status = stage.read("get", "infsvc", service, "-n", namespace).get("status", {})
    return next((entry for entry in status.get("conditions", []) if entry["type"] == kind), {})


FAULTS = [
    pytest.param(
        with_workers(simulated(), template=engine_container(image="tandem.local/no-such-image:1")),
        "ImagePullFailed", "no-such-image", id="an image that does not exist",
    ),
    pytest.param(
        simulated(model={"uri": "path:///models/tiny-llama", "name": "tiny", "tokenSecret": "not-there"}),
        "SecretNotFound", "not-there", id="a secret that does not exist",
    ),
    pytest.param(
        with_workers(simulated(), gpus=64), "InsufficientGPU", "nvidia.com/gpu", id="more GPUs than any node has",
    ),
    pytest.param(
        with_workers(simulated(), template={"spec": {"nodeSelector": {"no": "such-node"}}}),
        "Unschedulable", "node", id="a node selector that matches nothing",
    ),
    pytest.param(
        with_workers(simulated(), template=engine_container(command=["sh", "-c", "echo boom >&2; exit 3"])),
        "CrashLoop", "3", id="an engine that exits at once",
    ),
    pytest.param(
        simulated(model={"uri": "path:///models/nowhere", "name": "tiny"}, engine={}),
        "ModelNotFound", "/models/nowhere", id="a model that is not in the image",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "reason", "named"), FAULTS)
def test_a_fault_becomes_a_condition(
    stage: Stage, namespace: str, apply: Callable[..., None], eventually: Callable[..., Any],
    manifest: dict[str, Any], reason: str, named: str,
) -> None:  # fmt: skip
    apply(manifest)

    def told() -> bool:
        seen = condition(stage, namespace, "quick", "WorkersReady")
        return bool(seen) and seen["reason"] == reason

    eventually(told, SECONDS, f"WorkersReady says {reason}")
    ready = condition(stage, namespace, "quick", "Ready")
    assert ready["status"] == "False"
    assert ready["reason"] == reason, "the service's own Ready says the cause, not a symptom"
    assert named in condition(stage, namespace, "quick", "WorkersReady")["message"]


def test_a_secret_that_comes_later_is_picked_up(
    stage: Stage, namespace: str, apply: Callable[..., None], eventually: Callable[..., Any]
) -> None:
    apply(simulated(model={"uri": "path:///models/tiny-llama", "name": "tiny", "tokenSecret": "late"}))
    eventually(
        lambda: condition(stage, namespace, "quick", "Ready").get("reason") == "SecretNotFound",
        SECONDS,
        "the fault",
    )
    stage.kubectl(
        "create", "secret", "generic", "late", "-n", namespace, "--from-literal=token=hf_secret_value"
    )
    eventually(
        lambda: condition(stage, namespace, "quick", "Ready").get("status") == "True",
        120,
        "ready without an edit",
    )
    whole = stage.kubectl("get", "infsvc,pods,events", "-n", namespace, "-o", "yaml")
    assert "hf_secret_value" not in whole, "the token appears in no object that people read"
