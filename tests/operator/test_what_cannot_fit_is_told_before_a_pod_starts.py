"""KVCacheFits by arithmetic: only where model and GPU are known, and never against what a worker itself found."""

from typing import Any

import pytest

from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.reasons import Condition
from tandem_operator.plan.kv_fit import kv_fit
from tests.operator.fleet import Fleet, colocated, spec

H100 = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
LLAMA_70B = {"uri": "hf://meta-llama/Llama-3.3-70B-Instruct"}


def condition(fleet: Fleet) -> dict[str, Any] | None:
    fleet.step()
    status = fleet.plan().status or {}
    return next((c for c in status["conditions"] if c["type"] == Condition.KV_CACHE_FITS), None)


def on_h100(**changes: Any) -> dict[str, Any]:
    return colocated(workers={"minReplicas": 1, "maxReplicas": 2, "template": H100, **changes})


def verdict(manifest: dict[str, Any]) -> tuple[str, str] | None:
    found = kv_fit(InferenceServiceSpec.model_validate(manifest))
    return None if found is None else (found.status, found.message)


def test_a_model_that_fits_is_true_with_the_arithmetic() -> None:
    found = condition(Fleet({**on_h100(), "engine": {"maxModelLen": 16384}}))
    assert found is not None and (found["status"], found["reason"]) == ("True", "Fits")
    assert found["message"] == (
        "workers, 1 x H100: weights 16.1 GB + reserve 2 GB + KV cache of one sequence of 16384 tokens 2.15 GB fits in "
        "78.7 GB; 28 such sequences at once"
    )


def test_a_model_that_cannot_fit_is_false_and_its_pods_are_made_all_the_same() -> None:
    fleet = Fleet({**on_h100(), "model": LLAMA_70B})
    found = condition(fleet)
    assert found is not None and (found["status"], found["reason"]) == ("False", "DoesNotFit")
    assert "weights 141 GB" in found["message"] and "does not fit in 78.7 GB" in found["message"]
    assert any(kind == "pods" for kind, _ in fleet.objects)


def test_both_roles_are_told_at_once_when_they_ask_the_same() -> None:
    role = {"minReplicas": 1, "maxReplicas": 2, "gpus": 4, "template": H100}
    found = verdict(spec(model=LLAMA_70B, prefill=role, decode=role, engine={"maxModelLen": 8192}))
    assert found is not None and found[1].startswith("prefill and decode, 4 x H100: ")
    differs = verdict(
        spec(model=LLAMA_70B, prefill=role, decode={**role, "gpus": 2}, engine={"maxModelLen": 131072})
    )
    assert differs is not None and differs[0] == "False", "one role that does not fit is enough"


@pytest.mark.parametrize(
    "manifest",
    [
        colocated(),
        {**on_h100(), "model": {"uri": "hf://my-org/my-model"}},
        {**on_h100(), "model": {"uri": "pvc://models/llama-3.1-8b"}},
        on_h100(gpus=0),
        on_h100(gpuResource="nvidia.com/mig-3g.40gb"),
        on_h100(template={"spec": {"nodeSelector": {"gpu": "NVIDIA-H100-80GB-HBM3", "old": "NVIDIA-A10"}}}),
        {**on_h100(), "engine": {"extraArgs": ["--cpu-offload-gb", "20"]}},
        on_h100(engine={"extraArgs": ["--kv_cache_memory_bytes=9000"]}),
        spec(prefill={"template": H100}),
    ],
    ids=[
        "no-gpu",
        "unknown-model",
        "a-volume",
        "cpu",
        "mig",
        "two-gpus",
        "offload",
        "override",
        "half-known",
    ],
)
def test_where_it_cannot_be_told_the_condition_is_absent(manifest: dict[str, Any]) -> None:
    assert verdict(manifest) is None


def test_a_larger_share_of_the_memory_counts() -> None:
    tight = {"maxModelLen": 131072, "extraArgs": ["--gpu-memory-utilization", "0.3"]}
    found = verdict({**on_h100(), "engine": tight})
    assert found is not None and found[0] == "False"
    assert verdict({**on_h100(), "engine": {**tight, "extraArgs": []}}) != found


def test_what_a_worker_found_on_its_device_wins_over_the_arithmetic() -> None:
    fleet = Fleet({**on_h100(), "engine": {"maxModelLen": 16384}})
    fleet.step()
    fleet.objects[("pods", "chat-0")]["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "engine", "restartCount": 3, "ready": False,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 78, "reason": "Error",
                                             "message": "InsufficientKVCache: weights 16.1 GB exceed 12.0 GB"}},
            }
        ],
    }  # fmt: skip
    status = fleet.plan().status or {}
    found = [c for c in status["conditions"] if c["type"] == Condition.KV_CACHE_FITS]
    assert [c["status"] for c in found] == ["False"] and "exceed 12.0 GB" in found[0]["message"]
