"""Known answers of the memory arithmetic, and how it must move when its arguments move."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api.sizing import (
    Architecture,
    UnknownArchitecture,
    fit,
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
    config = {
        "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512,
        "vocab_size": 1024,
    }  # fmt: skip
    assert Architecture.from_config(config).kv_heads == 4, "without num_key_value_heads: multi-head attention"
    with pytest.raises(UnknownArchitecture, match=missing):
        Architecture.from_config({key: value for key, value in config.items() if key != missing})


def test_latent_attention_is_refused_rather_than_sized_wrong() -> None:
    with pytest.raises(UnknownArchitecture, match="latent attention"):
        Architecture.from_config({"kv_lora_rank": 512})


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
