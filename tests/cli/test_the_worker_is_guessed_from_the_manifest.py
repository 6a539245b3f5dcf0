"""`--hardware` is needed only where model, precision, GPUs and node selector do not say it."""

from pathlib import Path
from typing import Any

import pytest

from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.replay.manifest import read
from tandem_autoscaler.cli.replay.worker import Worker, of
from tests.cli.manifests import H100, LLAMA_8B, chat, written


def on(label: str, value: str) -> dict[str, Any]:
    return {"spec": {"nodeSelector": {label: value}}}


def wanted(folder: Path, template: dict[str, Any], gpus: int = 1, **spec: Any) -> Worker:
    pool = {"maxReplicas": 4, "gpus": gpus, "template": template}
    return of(read(written(folder, chat(prefill=pool, decode=pool, **spec))), None)


@pytest.mark.parametrize(
    ("uri", "template", "gpus", "engine", "name"),
    [
        (LLAMA_8B, H100, 1, {}, "h100-llama-8b"),
        (LLAMA_8B, on("nvidia.com/gpu.product", "NVIDIA-H200"), 1, {"quantization": "fp8"}, "h200-llama-8b-fp8"),
        ("hf://RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", H100, 4, {}, "h100-llama-70b-fp8-tp4"),
        ("pvc://models/llama_3.1_70b", on("cloud.google.com/gke-accelerator", "nvidia-a100-80gb"), 8, {},
         "a100-llama-70b-tp8"),
        ("hf://Qwen/Qwen3-32B", on("karpenter.k8s.aws/instance-gpu-name", "h100"), 2, {}, "h100-qwen3-32b-tp2"),
    ],
)  # fmt: skip
def test_by_model_precision_gpus_and_node_selector(
    tmp_path: Path, uri: str, template: dict[str, Any], gpus: int, engine: dict[str, Any], name: str
) -> None:
    assert wanted(tmp_path, template, gpus, model={"uri": uri}, engine=engine).hardware.name == name


def test_required_node_affinity_says_it_too(tmp_path: Path) -> None:
    expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H200-NVL"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert wanted(tmp_path, {"spec": {"affinity": affinity}}).hardware.name == "h200-llama-8b"


@pytest.mark.parametrize(
    ("template", "gpus", "spec", "said"),
    [
        ({}, 1, {}, "does not say which GPU"),
        (H100, 1, {"model": {"uri": "hf://mistralai/Mistral-7B-v0.3"}}, "Mistral-7B"),
        (H100, 8, {}, "h100-llama-8b-tp8"),
        (on("nvidia.com/gpu.product", "NVIDIA-L40S"), 1, {}, "l40s-llama-8b"),
        ({"spec": {"nodeSelector": "h100"}}, 1, {}, "does not say which GPU"),
    ],
)
def test_what_is_not_known_is_asked_for_with_the_list(
    tmp_path: Path, template: dict[str, Any], gpus: int, spec: dict[str, Any], said: str
) -> None:
    with pytest.raises(Mistake, match="--hardware") as raised:
        wanted(tmp_path, template, gpus, **spec)
    assert said in str(raised.value) and "h100-llama-8b" in str(raised.value)


def test_roles_with_different_gpus_are_asked_about(tmp_path: Path) -> None:
    manifest = chat(decode={"gpus": 2, "template": H100})
    with pytest.raises(Mistake, match="gpus differ"):
        of(read(written(tmp_path, manifest)), None)


def test_a_name_that_is_given_wins_and_what_it_contradicts_is_said(tmp_path: Path) -> None:
    found = of(read(written(tmp_path, chat())), "h100-llama-70b-fp8-tp4")
    assert found.hardware.gpus == 4
    assert any("spec.prefill.gpus is 1" in note for note in found.notes)


def test_the_batch_is_the_manifests(tmp_path: Path) -> None:
    assert wanted(tmp_path, H100, engine={"maxSequences": 32}).hardware.max_sequences == 32
