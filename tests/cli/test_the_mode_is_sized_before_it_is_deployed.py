"""`kubectl tandem size --rate`: Colocated or Disaggregated for planned traffic, from data sheets alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem_autoscaler.cli.size.modes import log_normal
from tests.cli.conftest import Run

H100 = ("--model", "llama-3.1-8b", "--gpu", "H100", "--context", "8k")
TRAFFIC = ("--rate", "30", "--prompt", "2k", "--answer", "200")


def sized(said: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("size", *arguments, "-o", "json"))[0]["modes"]
    return found


def test_a_strict_tpot_is_cheaper_apart_and_a_loose_one_together(said: Run) -> None:
    strict = sized(said, *H100, *TRAFFIC, "--ttft", "1s", "--tpot", "12ms")
    loose = sized(said, *H100, *TRAFFIC, "--ttft", "1s", "--tpot", "60ms")
    assert strict["disaggregatedGpus"] < strict["colocatedGpus"] and strict["advised"] == "Disaggregated"
    assert loose["colocatedGpus"] < loose["disaggregatedGpus"] and loose["advised"] is None
    assert 0.012 < strict["evenTpotSeconds"] < 0.06


def test_the_manifest_brings_promises_and_the_gpu_of_each_role(said: Run, tmp_path: Path) -> None:
    def on(gpu: str) -> dict[str, Any]:
        return {"template": {"spec": {"nodeSelector": {"nvidia.com/gpu.product": gpu}}}}

    manifest = {
        "apiVersion": "tandem.dev/v1alpha1", "kind": "InferenceService", "metadata": {"name": "chat"},
        "spec": {
            "mode": "Disaggregated", "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"},
            "engine": {"maxModelLen": 8192}, "slo": {"ttft": "1s", "tpot": "12ms"},
            "prefill": on("NVIDIA-H100-80GB-HBM3"), "decode": on("NVIDIA-H200"),
        },
    }  # fmt: skip
    file = tmp_path / "chat.yaml"
    file.write_text(yaml.safe_dump(manifest))
    found = sized(said, "-f", str(file), *TRAFFIC)
    assert found["now"] == "Disaggregated" and found["prefill"] >= 1 and found["decode"] >= 1
    slower = sized(said, *H100, *TRAFFIC, "--ttft", "1s", "--tpot", "12ms")
    assert found["decode"] <= slower["decode"]


def test_without_a_rate_nothing_is_said_of_modes(said: Run) -> None:
    assert "modes" not in json.loads(said("size", *H100, "-o", "json"))[0]
    assert "mode:" not in said("size", *H100)
    assert "mode: Colocated needs" in " ".join(
        said("size", *H100, *TRAFFIC, "--ttft", "1s", "--tpot", "30ms").split()
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((*H100, "--rate", "3"), "--rate needs --prompt and --answer"),
        ((*H100, "--prompt", "100"), "--rate says how many come"),
        ((*H100, *TRAFFIC), "--rate needs both promises"),
        (("--model", "llama-3.1-8b", *TRAFFIC, "--ttft", "1s", "--tpot", "30ms"), "--rate needs a GPU"),
    ],
)
def test_what_is_missing_is_said_in_one_line(said: Run, arguments: tuple[str, ...], told: str) -> None:
    text = said("size", *arguments, status=2)
    assert told in text and text.count("\n") == 1


def test_lengths_vary_around_the_mean_that_was_given() -> None:
    lengths = log_normal(2000.0)
    assert sum(tokens * share for tokens, share in lengths) == pytest.approx(2000.0)
    assert max(lengths)[0] > 4 * min(lengths)[0]
