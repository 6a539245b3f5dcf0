"""Known answers of the memory arithmetic, and how it must move when its arguments move."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api.sizing import (
    DEFAULT_UTILIZATION,
    GPUS,
    MODELS,
    Architecture,
    UnknownArchitecture,
    activation_bytes,
    fit,
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    kv_cache_bytes,
    weight_bytes,
)

LLAMA_8B = Architecture(
    layers=32, hidden_size=4096, intermediate_size=14336, attention_heads=32, kv_heads=8, head_dim=128,
    vocabulary=128256,
)  # fmt: skip
LLAMA_70B = Architecture(
    layers=80, hidden_size=8192, intermediate_size=28672, attention_heads=64, kv_heads=8, head_dim=128,
    vocabulary=128256,
)  # fmt: skip
GB = 10**9
SMALL = {
    "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 512,
    "vocab_size": 1024,
}  # fmt: skip


def test_llama_8b_keeps_131072_bytes_per_token() -> None:
    assert kv_bytes_per_token(LLAMA_8B, dtype="bf16") == 131_072
    assert kv_bytes_per_token(LLAMA_8B, dtype="fp8") == 65_536


def test_parameter_counts_are_the_published_ones() -> None:
    assert LLAMA_8B.parameters == pytest.approx(8.03e9, rel=1e-3)
    assert LLAMA_70B.parameters == pytest.approx(70.55e9, rel=1e-3)


def test_a_hundred_conversations_of_4k_take_50_gb_and_of_32k_over_400() -> None:
    assert kv_cache_bytes(LLAMA_8B, sequences=100, tokens=4096) == pytest.approx(53.7 * GB, rel=1e-2)
    assert kv_cache_bytes(LLAMA_8B, sequences=100, tokens=32768) > 400 * GB
    assert kv_cache_bytes(LLAMA_70B, sequences=100, tokens=16000) == pytest.approx(524 * GB, rel=1e-2)


def test_llama_8b_fits_an_80_gb_gpu_and_70b_does_not() -> None:
    assert fit(LLAMA_8B, memory_bytes=80 * GB, max_model_len=16384).fits
    verdict = fit(LLAMA_70B, memory_bytes=80 * GB, max_model_len=16384)
    assert not verdict.fits
    assert verdict.kv_tokens == 0, "a negative budget holds no token, not a negative number"
    assert "does not fit in 72 GB" in verdict.sentence()


@pytest.mark.parametrize("missing", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_config_without_a_needed_key_is_refused_by_its_name(missing: str) -> None:
    config = SMALL
    assert Architecture.from_config(config).kv_heads == 4, "without num_key_value_heads: multi-head attention"
    with pytest.raises(UnknownArchitecture, match=missing):
        Architecture.from_config({key: value for key, value in config.items() if key != missing})


DEEPSEEK_V3 = {
    "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "vocab_size": 129280, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
    "max_position_embeddings": 163840, "model_type": "deepseek_v3",
}  # fmt: skip


def test_latent_attention_keeps_one_vector_for_all_heads_on_every_rank() -> None:
    found = Architecture.from_config(DEEPSEEK_V3)
    assert kv_bytes_per_token(found) == 61 * (512 + 64) * 2 == 70_272
    assert kv_bytes_per_token(found, gpus=8) == 8 * 70_272, "no rank can do with a part of it"
    assert found == MODELS["deepseek-r1"].architecture, "the catalogue says the same as config.json"


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"model_type": "gemma3_text", "sliding_window": 1024}, (1024, 5)),
        ({"model_type": "gemma2", "sliding_window": 4096}, (4096, 3)),
        ({"model_type": "mistral", "sliding_window": 4096}, (4096, 6)),
        ({"model_type": "mistral", "sliding_window": None}, (0, 0)),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, (0, 0)),
        (
            {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 4},
            (64, 2),
        ),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 3}, (128, 3)),
    ],
)  # fmt: skip
def test_which_layers_have_a_sliding_window(changes: dict[str, object], kept: tuple[int, int]) -> None:
    found = Architecture.from_config({**SMALL, **changes})
    assert (found.window, found.window_layers) == kept


def test_layers_with_a_window_stop_growing_at_it() -> None:
    windowed = dataclasses.replace(LLAMA_8B, window=1024, window_layers=24)
    assert kv_bytes_per_sequence(windowed, 1024) == kv_bytes_per_sequence(LLAMA_8B, 1024)
    grown = kv_bytes_per_sequence(windowed, 9216) - kv_bytes_per_sequence(windowed, 1024)
    assert grown * 4 == kv_bytes_per_sequence(LLAMA_8B, 8192), "8 of 32 layers"
    verdict = fit(windowed, memory_bytes=80 * GB, max_model_len=131072)
    assert verdict.kv_tokens > 3 * fit(LLAMA_8B, memory_bytes=80 * GB, max_model_len=131072).kv_tokens


@pytest.mark.parametrize(
    ("key", "value"),
    [("index_topk", 2048), ("linear_attn_config", {"a": 1}), ("hybrid_override_pattern", "M-M*"),
     ("layer_types", ["linear_attention"] * 6), ("full_attention_interval", 4), ("global_head_dim", 512)],
)  # fmt: skip
def test_attention_of_a_kind_without_arithmetic_is_refused_rather_than_sized_wrong(
    key: str, value: object
) -> None:
    with pytest.raises(UnknownArchitecture, match=key):
        Architecture.from_config({**SMALL, key: value})


def test_embeddings_stay_in_sixteen_bits_when_the_rest_is_quantised() -> None:
    """vllm-project/vllm#12569: an engine logged 67.72 GiB for Llama-3.1-70B in 8 bits."""
    assert weight_bytes(LLAMA_70B, quantization="fp8") == pytest.approx(67.7229 * 2**30, rel=2e-3)
    assert weight_bytes(LLAMA_8B, quantization="awq") == pytest.approx(5.8 * GB, rel=0.02)
    oss = MODELS["gpt-oss-120b"]
    assert weight_bytes(oss.architecture, quantization=oss.stored) == pytest.approx(65.2 * GB, rel=0.01)


def test_what_the_engine_logged_for_the_kv_cache_is_met_within_a_hundredth_of_the_gpu() -> None:
    """The same log: 1,381 blocks of 16 tokens beside these weights, at a utilization of 0.98 of one H100."""
    memory = GPUS["H100"].memory_bytes
    found = fit(
        LLAMA_70B, memory_bytes=memory, max_model_len=2048, utilization=0.98, quantization="fp8",
        reserve_bytes=activation_bytes(LLAMA_70B),
    )  # fmt: skip
    logged = 1381 * 16 * kv_bytes_per_token(LLAMA_70B)
    assert abs(found.kv_budget_bytes - logged) < 0.015 * memory


def test_the_engine_counts_the_same_tokens_in_its_kv_cache() -> None:
    """vllm:cache_config_info of vLLM 0.32 on the tiny model of the end-to-end tests, float32, one GiB of cache."""
    recorded = (Path(__file__).parents[1] / "worker/vllm-0.32-metrics.txt").read_text()
    labels = dict(re.findall(r'(\w+)="([^"]*)"', recorded[recorded.index("vllm:cache_config_info{") :]))
    tiny = Architecture(
        layers=4, hidden_size=256, intermediate_size=512, attention_heads=4, kv_heads=2, head_dim=64,
        vocabulary=1024,
    )  # fmt: skip
    tokens = int(labels["kv_cache_memory_bytes"]) // kv_bytes_per_token(tiny, dtype="float32")
    assert tokens == int(labels["kv_cache_size_tokens"])
    assert tokens == int(labels["num_gpu_blocks"]) * int(labels["block_size"])
    assert float(labels["gpu_memory_utilization"]) == DEFAULT_UTILIZATION


def test_ranks_beyond_the_number_of_kv_heads_keep_copies() -> None:
    assert kv_bytes_per_token(LLAMA_8B, gpus=8) == kv_bytes_per_token(LLAMA_8B)
    assert kv_bytes_per_token(LLAMA_8B, gpus=16) == 2 * kv_bytes_per_token(LLAMA_8B)


heads = st.sampled_from([1, 2, 4, 8, 16, 32])


@given(heads, heads)
def test_grouped_queries_cost_their_share_of_multi_head_attention(kv_heads: int, dtype_index: int) -> None:
    multi_head = dataclasses.replace(LLAMA_8B, kv_heads=LLAMA_8B.attention_heads)
    grouped = dataclasses.replace(LLAMA_8B, kv_heads=kv_heads)
    assert kv_bytes_per_token(grouped) * LLAMA_8B.attention_heads == kv_bytes_per_token(multi_head) * kv_heads


@given(
    st.integers(1, 640), st.integers(1, 640), st.integers(128, 65536), st.integers(128, 65536),
    st.sampled_from(["none", "fp8", "awq"]),
)  # fmt: skip
def test_more_memory_never_fits_less_and_longer_contexts_never_fit_more(
    small_gb: int, more_gb: int, short: int, longer: int, quantization: str
) -> None:
    base = fit(LLAMA_8B, memory_bytes=small_gb * GB, max_model_len=short, quantization=quantization)
    bigger = fit(
        LLAMA_8B, memory_bytes=(small_gb + more_gb) * GB, max_model_len=short, quantization=quantization
    )
    lengthened = fit(
        LLAMA_8B, memory_bytes=small_gb * GB, max_model_len=short + longer, quantization=quantization
    )
    assert bigger.sequences >= base.sequences >= lengthened.sequences >= 0
    assert weight_bytes(LLAMA_8B, quantization=quantization) == base.weights_bytes
