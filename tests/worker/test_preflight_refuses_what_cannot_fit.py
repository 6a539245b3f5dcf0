"""Weights and KV cache against the device's memory, before the engine spends minutes finding out."""

import json

import pytest

from tandem_api.reasons import Reason
from tandem_worker import model_files, preflight
from tandem_worker.device_memory import DeviceMemory, cpu_memory
from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import PreflightRefused
from tandem_worker.model_files import ModelFiles, find_model

# Llama-3.1-8B's config.json, as far as sizes go.
LLAMA_8B = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
GPU_24 = DeviceMemory(1, 24_000_000_000)
GPU_80 = DeviceMemory(1, 80_000_000_000)


def check(
    *flags: str, device: DeviceMemory, config=LLAMA_8B, files: int | None = None
) -> preflight.Preflight:
    return preflight.check(EngineFlags.parse(["m", *flags]), ModelFiles(config, files), device)


def test_the_refusal_begins_with_its_reason_and_holds_the_arithmetic():
    with pytest.raises(PreflightRefused) as refused:
        check("--gpu-memory-utilization", "0.9", device=GPU_24)
    assert str(refused.value) == (
        "InsufficientKVCache: weights 16.1 GB + KV for one sequence of 131072 tokens 17.2 GB exceed 24.0 GB x 0.90"
    )


@pytest.mark.parametrize(
    "flags",
    [
        ["--max-model-len", "16384"],
        ["--max-model-len", "32768", "--kv-cache-dtype", "fp8"],
        ["--max-model-len", "65536", "--quantization", "fp8"],
    ],
)
def test_a_shorter_sequence_or_smaller_numbers_fit(flags):
    assert check(*flags, device=GPU_24).verdict.fits


def test_the_summary_tells_how_many_sequences_there_is_room_for():
    # (80e9 x 0.92 - 16.06e9) / 131072 / 16384 = 26.8
    assert "26 sequences of 16384 tokens" in check("--max-model-len", "16384", device=GPU_80).summary()


def test_devices_in_parallel_add_up():
    two = DeviceMemory(2, 24_000_000_000)
    assert check("-tp", "2", device=two).verdict.fits
    with pytest.raises(PreflightRefused, match="PreflightRefused: needs 4 devices, and 2 are here"):
        check("--tensor-parallel-size", "4", device=two)


def test_weight_files_say_better_than_the_config_how_big_they_are():
    assert (
        check("--max-model-len", "1024", device=GPU_80, files=30_000_000_000).verdict.weights_bytes
        == 30_000_000_000
    )
    dummy = check("--max-model-len", "1024", "--load-format", "dummy", device=GPU_80, files=30_000_000_000)
    assert dummy.verdict.weights_bytes == pytest.approx(16.06e9, rel=1e-3)


@pytest.mark.parametrize(
    ("config", "flags"),
    [
        ({"model_type": "unknown"}, []),
        (LLAMA_8B, ["--max-model-len", "auto"]),
        (LLAMA_8B, ["--quantization", "exotic"]),
    ],
)
def test_what_cannot_be_sized_is_not_refused(config, flags):
    assert check(*flags, device=GPU_24, config=config).verdict is None


def test_on_cpu_the_cache_is_what_was_set_apart():
    small = DeviceMemory(0, 64_000_000_000, kv_space_bytes=2**30)
    with pytest.raises(PreflightRefused, match=r"exceeds VLLM_CPU_KVCACHE_SPACE 1.1 GB"):
        check("--max-model-len", "16384", device=small)
    assert "1 sequences of 8192" in check("--max-model-len", "8192", device=small).summary()


def test_on_cpu_weights_and_cache_must_fit_the_containers_limit(tmp_path):
    (tmp_path / "memory.max").write_text("8000000000\n")
    device = cpu_memory({"VLLM_CPU_KVCACHE_SPACE": "1"}, tmp_path)
    assert (device.bytes_per_device, device.kv_space_bytes) == (8_000_000_000, 2**30)
    with pytest.raises(PreflightRefused, match=r"exceed the memory limit 8.0 GB"):
        check("--max-model-len", "1024", device=device)


def test_no_limit_is_the_hosts_memory(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    assert cpu_memory({}, tmp_path).bytes_per_device > 10**9
    assert cpu_memory({}, tmp_path).kv_space_bytes is None


@pytest.mark.parametrize("model", ["/no/such/folder", "./nowhere", "org/name/extra", "org/name"])
def test_a_model_that_is_not_here_is_said_so(model, tmp_path):
    with pytest.raises(PreflightRefused, match=r"^ModelNotFound: "):
        find_model(model, {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)})


@pytest.mark.parametrize("text", [None, "{broken", "[]"])
def test_a_folder_without_a_config_is_no_model(tmp_path, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(PreflightRefused, match=r"^ModelNotFound: "):
        find_model(str(tmp_path), {})


def test_a_cached_model_is_read_at_its_main_revision(tmp_path):
    repository = tmp_path / "hub" / "models--org--name"
    for revision in ("old", "new"):
        folder = repository / "snapshots" / revision
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"revision": revision}))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("old")
    found = find_model("org/name", {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"})
    assert found is not None and found.config == {"revision": "old"}


def test_the_last_words_go_to_the_termination_log(run_worker, tmp_path):
    log = tmp_path / "termination-log"
    done = run_worker("/no/such/model", TANDEM_TERMINATION_LOG=str(log))
    assert done.returncode == 78
    assert log.read_text() == "ModelNotFound: there is no /no/such/model\n"
    assert done.stderr.strip() == log.read_text().strip()


def test_the_words_are_those_the_operator_reads():
    assert preflight.INSUFFICIENT_KV_CACHE == Reason.INSUFFICIENT_KV_CACHE
    assert preflight.PREFLIGHT_REFUSED == Reason.PREFLIGHT_REFUSED
    assert model_files.MODEL_NOT_FOUND == Reason.MODEL_NOT_FOUND
