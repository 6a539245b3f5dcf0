"""The catalogue's shapes give the parameter counts that their makers publish, in billions: (all, active per token)."""

import pytest

from tandem_api.sizing import MODELS, kv_bytes_per_token, model_named

PUBLISHED: dict[str, tuple[float, float | None]] = {
    "llama-3.1-8b": (8.03, None), "llama-3.1-70b": (70.6, None), "llama-3.1-405b": (405.9, None),
    "llama-3.2-1b": (1.24, None), "llama-3.2-3b": (3.21, None), "llama-3.3-70b": (70.6, None),
    "qwen2.5-0.5b": (0.494, None), "qwen2.5-1.5b": (1.54, None), "qwen2.5-3b": (3.09, None),
    "qwen2.5-7b": (7.61, None), "qwen2.5-14b": (14.7, None), "qwen2.5-32b": (32.5, None),
    "qwen2.5-72b": (72.7, None), "qwen3-0.6b": (0.6, None), "qwen3-1.7b": (1.7, None), "qwen3-4b": (4.0, None),
    "qwen3-8b": (8.2, None), "qwen3-14b": (14.8, None), "qwen3-32b": (32.8, None),
    "qwen3-30b-a3b": (30.5, 3.3), "qwen3-235b-a22b": (235.0, 22.0), "qwen3-coder-480b-a35b": (480.0, 35.0),
    "mistral-7b": (7.25, None), "mistral-nemo": (12.2, None), "mistral-small-24b": (23.6, None),
    "mistral-large": (123.0, None), "mixtral-8x7b": (46.7, 12.9), "mixtral-8x22b": (141.0, 39.0),
    "gemma-2-2b": (2.61, None), "gemma-2-9b": (9.24, None), "gemma-2-27b": (27.2, None),
    "gemma-3-1b": (1.0, None), "deepseek-v3": (671.0, 37.0), "deepseek-r1": (671.0, 37.0),
    # 1.04 T are published with what else is in the repository.
    "kimi-k2": (1026.0, 32.0), "gpt-oss-20b": (20.9, None), "gpt-oss-120b": (116.8, None),
    "phi-3.5-mini": (3.82, None), "phi-4": (14.7, None), "phi-4-mini": (3.84, None),
    # Without the vision tower, which adds 0.42 billion.
    "gemma-3-4b": (3.88, None), "gemma-3-12b": (11.77, None), "gemma-3-27b": (27.0, None),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_count_is_the_published_one(name: str) -> None:
    everything, active = PUBLISHED[name]
    shape = MODELS[name].architecture
    assert shape.parameters / 1e9 == pytest.approx(everything, rel=0.015)
    if active is None and not shape.experts:
        assert shape.active_parameters == shape.parameters
    elif active is not None:
        assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.03)


@pytest.mark.parametrize(
    ("name", "kib"),
    [("llama-3.1-8b", 128), ("llama-3.1-70b", 320), ("llama-3.1-405b", 504), ("qwen2.5-7b", 56), ("mixtral-8x7b", 128),
     ("deepseek-v3", 68.625), ("phi-3.5-mini", 384), ("gpt-oss-120b", 72)],
)  # fmt: skip
def test_a_token_takes_so_many_kibibytes_of_kv_cache(name: str, kib: float) -> None:
    assert kv_bytes_per_token(MODELS[name].architecture) == kib * 1024


@pytest.mark.parametrize(
    ("given", "name", "stored"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", "none"),
        ("meta-llama/Meta-Llama-3.1-70B", "llama-3.1-70b", "none"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "llama-3.1-70b", "fp8"),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", "qwen2.5-72b", "gptq"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b", "awq"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b-instruct-2507", "none"),
        ("google/gemma-3-27b-it", "gemma-3-27b", "none"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1", "fp8"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b", "none"),
        ("openai/gpt-oss-120b", "gpt-oss-120b", "mxfp4"),
        ("microsoft/phi-4", "phi-4", "none"),
        ("llama-3.1-8b", "llama-3.1-8b", "none"),
    ],
)
def test_models_are_known_by_their_repositories_names(given: str, name: str, stored: str) -> None:
    found = model_named(given)
    assert found is not None and (found.name, found.stored) == (name, stored)


@pytest.mark.parametrize(
    "given", ["", "instruct", "my-org/my-model", "/models/checkpoint-500", "llama", "fp8-fp8"]
)
def test_an_unknown_model_is_none_and_not_the_nearest(given: str) -> None:
    assert model_named(given) is None


def test_the_2507_releases_have_their_own_longer_context() -> None:
    assert MODELS["qwen3-4b"].architecture.max_position == 40960
    assert MODELS["qwen3-4b-instruct-2507"].architecture.max_position == 262144
