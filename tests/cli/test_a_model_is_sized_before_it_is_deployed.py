"""Issue 6, item 1: from flags, a manifest or a config.json to a verdict with its arithmetic."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem_autoscaler.cli.main import main
from tests.cli.manifests import chat, written

LLAMA = ("--model", "meta-llama/Llama-3.1-8B-Instruct")
CROWD = (*LLAMA, "--gpu", "H100", "--concurrency", "100")
REPOSITORY = Path(__file__).parents[2]


def sized(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[dict[str, Any]]:
    assert main(["size", *arguments, "-o", "json"]) == status
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_a_hundred_chats_of_4k_fit_one_h100(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = sized(capsys, *CROWD, "--context", "4k")
    assert found["worker"]["fits"] and found["worker"]["mostSequences"] == 112
    assert found["worker"]["kvBytes"] == 100 * 4096 * 131072
    assert found["ceilings"]["stepsPerSecondAlone"] == pytest.approx(209, abs=1)
    assert found["expected"]["tpotSeconds"] > 1 / found["ceilings"]["stepsPerSecond"], (
        "no more than the roofline"
    )


def test_of_32k_they_do_not_and_each_remedy_is_told_with_what_it_leaves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (found,) = sized(capsys, *CROWD, "--context", "32k", status=1)
    assert not found["worker"]["fits"] and found["worker"]["mostSequences"] == 14
    changes = {remedy["change"]: remedy["spareBytes"] for remedy in found["remedies"]}
    assert set(changes) == {"8 x H100", "14 sequences at once", "4,608 tokens of context"}
    assert all(left >= 0 for left in changes.values())


def test_half_the_bytes_are_offered_before_more_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = sized(capsys, *CROWD, "--context", "8k", status=1)
    assert [remedy["change"] for remedy in found["remedies"]][:3] == [
        "KV cache in fp8", "weights and KV cache in fp8", "2 x H100",
    ]  # fmt: skip
    (a100,) = sized(capsys, *LLAMA, "--gpu", "A100-40GB", "--concurrency", "50", "--context", "4k", status=1)
    assert not any("weights in fp8" in remedy["change"] for remedy in a100["remedies"]), "it has no fp8 units"
    assert any("4 bits" in remedy["change"] for remedy in a100["remedies"])


def test_without_a_gpu_the_question_is_which(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = sized(capsys, "--model", "llama-3.3-70b", "--context", "16k", "--concurrency", "50")
    assert "worker" not in found
    smallest = {entry["gpu"]: entry["gpus"] for entry in found["smallestWorkers"]}
    assert smallest["H100"] == 8 and smallest["H200"] == 4 and "L4" not in smallest


def test_a_manifest_says_model_gpu_length_and_precision(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    manifest = written(tmp_path, chat(engine={"maxModelLen": 16384, "quantization": "fp8", "kvCacheDtype": "fp8",
                                              "extraArgs": ["--gpu-memory-utilization=0.8"]}))  # fmt: skip
    (both,) = sized(capsys, "-f", manifest)
    assert (both["role"], both["worker"]["gpu"], both["context"]) == ("prefill and decode", "H100", 16384)
    assert both["kvBytesPerToken"] == 65536 and both["quantization"] == "fp8"
    assert both["worker"]["usableBytes"] == int(81559 * 2**20 * 0.8)
    (crowded,) = sized(capsys, "-f", manifest, "--concurrency", "80", status=1)
    assert crowded["concurrency"] == 80 and not crowded["worker"]["fits"]


def test_roles_that_differ_are_sized_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    h200 = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"}}}
    manifest = chat(decode={"maxReplicas": 4, "gpus": 2, "template": h200}, engine={"maxModelLen": 8192})
    found = sized(capsys, "-f", written(tmp_path, manifest))
    assert [(one["role"], one["worker"]["gpu"], one["worker"]["gpus"]) for one in found] == [
        ("prefill", "H100", 1),
        ("decode", "H200", 2),
    ]


def test_every_example_of_ours_that_names_a_known_model_is_sized(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("llama-8b-disaggregated", "llama-8b-colocated"):
        found = sized(capsys, "-f", str(REPOSITORY / f"examples/{name}.yaml"), "--gpu", "H100")
        assert all(one["worker"]["fits"] for one in found)


def test_a_directory_with_a_config_is_a_model_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
        "quantization_config": {"quant_method": "compressed-tensors",
                                "config_groups": {"group_0": {"weights": {"num_bits": 8}}}},
    }  # fmt: skip
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (found,) = sized(capsys, "--model", str(folder), "--gpu", "l40s", "--context", "8k")
    assert (found["model"], found["quantization"]) == ("my-llama", "fp8")
    assert found["kvBytesPerToken"] == 131072


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize(
    "arguments",
    [(*CROWD, "--context", "4k"), (*CROWD, "--context", "32k"),
     ("--model", "deepseek-r1", "--gpu", "H200", "--gpus", "8", "--concurrency", "256", "--context", "8k"),
     ("--model", "gpt-oss-120b")],
)  # fmt: skip
def test_the_tables_fit_the_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    main(["size", *arguments])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns and not any("…" in line for line in lines)


def test_yaml_says_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = sized(capsys, *CROWD, "--context", "4k")
    main(["size", *CROWD, "--context", "4096", "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("--model", "-f")),
        (["--model", "lama-3.1-8b"], ("did you mean llama-3.1-8b",)),
        (["--model", "/no/such/folder"], ("/no/such/folder",)),
        (["--model", "llama-3.1-8b", "--gpu", "H1000"], ("H1000", "H100-NVL", "MI300X")),
        (["--model", "llama-3.1-8b", "--gpus", "2"], ("--gpu says which",)),
        (["--model", "qwen2.5-7b", "--gpu", "L4", "--gpus", "8"], ("28 attention heads",)),
        (["-f", "/no/such/file.yaml"], ("/no/such/file.yaml",)),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: tuple[str, ...]
) -> None:
    assert main(["size", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert all(word in captured.err for word in words), captured.err


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (chat(model={"uri": "pvc://models/mine"}), ("pvc://models/mine", "--model")),
        (chat(prefill={"gpus": 0}), ("prefill", "CPU", "--gpus")),
        (chat(engine={"maxModelLen": "long"}), ("spec.engine.maxModelLen",)),
    ],
    ids=["unknown-model", "cpu", "invalid"],
)
def test_a_mistake_in_the_manifest_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, manifest: dict[str, Any], words: tuple[str, ...]
) -> None:
    assert main(["size", "-f", written(tmp_path, manifest)]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and all(word in captured.err for word in words), captured.err


@pytest.mark.parametrize("arguments", [["--context", "0"], ["--concurrency", "-3"], ["--utilization", "1.5"],
                                       ["--context", "many"]], ids=" ".join)  # fmt: skip
def test_a_flags_value_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["size", *LLAMA, *arguments])
    assert ended.value.code == 2 and arguments[0] in capsys.readouterr().err.splitlines()[-1]
