"""Bytes of weights and KV cache, and whether they fit.

Source of the KV formula: every layer keeps one key and one value vector per KV head and token, so
2 x layers x KV heads x head dimension x bytes per element (vLLM's `FullAttentionSpec.page_size_bytes`
divided by its block size gives the same). Llama-3.1-8B in bf16: 131,072 bytes per token.
"""

from dataclasses import dataclass
from typing import Final

from tandem_api.sizing.architecture import Architecture

BYTES_PER_ELEMENT: Final = {"fp32": 4.0, "float32": 4.0, "bf16": 2.0, "fp16": 2.0, "auto": 2.0, "fp8": 1.0}
# Quantised weights: 4-bit formats carry a scale and a zero point per group of 128, about an eighth of a bit each.
BYTES_PER_WEIGHT: Final = {"none": 2.0, "fp8": 1.0, "awq": 0.5 * 1.0625, "gptq": 0.5 * 1.0625}


def kv_bytes_per_token(architecture: Architecture, *, dtype: str = "bf16") -> int:
    """Bytes that one token occupies in the KV cache, over all layers and all tensor-parallel ranks.

    Raises KeyError for a dtype that is not in BYTES_PER_ELEMENT.
    """
    per_element = BYTES_PER_ELEMENT[dtype]
    return int(2 * architecture.layers * architecture.kv_heads * architecture.head_dim * per_element)


def kv_cache_bytes(architecture: Architecture, *, sequences: int, tokens: int, dtype: str = "bf16") -> int:
    """Bytes of the KV cache for `sequences` requests of `tokens` tokens each."""
    return kv_bytes_per_token(architecture, dtype=dtype) * sequences * tokens


def weight_bytes(
    architecture: Architecture, *, quantization: str = "none", bytes_per_weight: float | None = None
) -> int:
    """Bytes of the weights. `bytes_per_weight` overrides what `quantization` implies (float32: 4)."""
    per_weight = BYTES_PER_WEIGHT[quantization] if bytes_per_weight is None else bytes_per_weight
    return int(architecture.parameters * per_weight)


@dataclass(frozen=True)
class MemoryFit:
    """The verdict and its arithmetic; all sizes in bytes over the whole worker."""

    weights_bytes: int
    reserve_bytes: int
    usable_bytes: int
    kv_bytes_per_token: int
    max_model_len: int

    @property
    def kv_budget_bytes(self) -> int:
        """What is left for the KV cache; negative when not even the weights fit."""
        return self.usable_bytes - self.weights_bytes - self.reserve_bytes

    @property
    def kv_tokens(self) -> int:
        return max(0, self.kv_budget_bytes) // self.kv_bytes_per_token

    @property
    def sequences(self) -> int:
        """Sequences of full length that fit at once."""
        return self.kv_tokens // self.max_model_len

    @property
    def fits(self) -> bool:
        return self.sequences >= 1

    def sentence(self) -> str:
        """The arithmetic in one line, decimal gigabytes."""
        one = self.kv_bytes_per_token * self.max_model_len
        verdict = "fits" if self.fits else "does not fit"
        return (
            f"weights {_gb(self.weights_bytes)} + reserve {_gb(self.reserve_bytes)} + KV cache of one sequence "
            f"of {self.max_model_len} tokens {_gb(one)} {verdict} in {_gb(self.usable_bytes)}"
            + (f"; {self.sequences} such sequences at once" if self.fits else "")
        )


def fit(
    architecture: Architecture,
    *,
    memory_bytes: int,
    max_model_len: int,
    gpus: int = 1,
    utilization: float = 0.9,
    quantization: str = "none",
    kv_dtype: str = "auto",
    bytes_per_weight: float | None = None,
    reserve_bytes: int = 0,
) -> MemoryFit:
    """Does a worker of `gpus` devices with `memory_bytes` each hold the model and one full sequence?

    `utilization` is the engine's share of the memory (vLLM's --gpu-memory-utilization); `reserve_bytes` is
    kept for activations.
    """
    return MemoryFit(
        weights_bytes=weight_bytes(
            architecture, quantization=quantization, bytes_per_weight=bytes_per_weight
        ),
        reserve_bytes=reserve_bytes,
        usable_bytes=int(memory_bytes * gpus * utilization),
        kv_bytes_per_token=kv_bytes_per_token(architecture, dtype=kv_dtype),
        max_model_len=max_model_len,
    )


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.3g} GB"
