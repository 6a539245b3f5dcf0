"""Bytes of weights, KV cache and activations, and whether they fit.

Source of the KV formula: every layer keeps one key and one value vector per KV head and token, so
2 x layers x KV heads x head dimension x bytes per element (vLLM's `FullAttentionSpec.page_size_bytes`
divided by its block size gives the same). Llama-3.1-8B in bf16: 131,072 bytes per token. Multi-head latent attention
keeps one vector for both and for all heads (`MLAAttentionSpec`). A layer with a sliding window keeps no more than its
window (`SlidingWindowSpec`; vLLM does so while its hybrid KV cache manager is on).
"""

import math
from dataclasses import dataclass
from typing import Final

from tandem_api.sizing.architecture import Architecture

BYTES_PER_ELEMENT: Final = {"fp32": 4.0, "float32": 4.0, "bf16": 2.0, "fp16": 2.0, "auto": 2.0, "fp8": 1.0}
# Quantised weights: 4-bit formats carry a scale and a zero point per group of 128, about an eighth of a bit each.
# MXFP4 has one scale of 8 bits per 32.
BYTES_PER_WEIGHT: Final = {
    "none": 2.0, "fp8": 1.0, "awq": 0.5 * 1.0625, "gptq": 0.5 * 1.0625, "mxfp4": 0.5 * 1.0625,
}  # fmt: skip
WHOLE_BYTES: Final = 2.0  # of a weight that is not quantised
# What vLLM 0.32 takes of a GPU's memory unless told (vllm/config/cache.py: gpu_memory_utilization).
DEFAULT_UTILIZATION: Final = 0.92
# Most tokens of one step, and most sequences, by which the engine measures its activations (vLLM's on large GPUs).
DEFAULT_BATCHED_TOKENS, DEFAULT_SEQUENCES = 8192, 256
# CUDA context, communication buffers and kernels' work space, per GPU.
_CONTEXT_BYTES: Final = 500_000_000


def kv_bytes_per_token(architecture: Architecture, *, dtype: str = "bf16", gpus: int = 1) -> int:
    """Bytes that one more token occupies in the KV cache, over all layers and all `gpus` tensor-parallel ranks.

    Within the sliding windows, that is; beyond them `kv_bytes_per_sequence` tells. Ranks beyond the number of KV heads
    (1 for latent attention) keep copies. Raises KeyError for a dtype that is not in BYTES_PER_ELEMENT.
    """
    return int(architecture.layers * _layer_elements(architecture, gpus) * BYTES_PER_ELEMENT[dtype])


def kv_bytes_per_sequence(
    architecture: Architecture, tokens: int, *, dtype: str = "bf16", gpus: int = 1
) -> int:
    """Bytes of the KV cache of one sequence that holds so many tokens."""
    windowed = architecture.window_layers
    kept = (architecture.layers - windowed) * tokens + windowed * min(
        tokens, architecture.window if windowed else tokens
    )
    return int(kept * _layer_elements(architecture, gpus) * BYTES_PER_ELEMENT[dtype])


def kv_cache_bytes(
    architecture: Architecture, *, sequences: int, tokens: int, dtype: str = "bf16", gpus: int = 1
) -> int:
    """Bytes of the KV cache for `sequences` requests of `tokens` tokens each."""
    return sequences * kv_bytes_per_sequence(architecture, tokens, dtype=dtype, gpus=gpus)


def _layer_elements(architecture: Architecture, gpus: int) -> int:
    """Numbers that one layer keeps of a token, over all ranks."""
    if architecture.latent is not None:
        return (architecture.latent.rank + architecture.latent.rope_dim) * gpus
    return 2 * math.ceil(architecture.kv_heads / gpus) * gpus * architecture.head_dim


def weight_bytes(
    architecture: Architecture, *, quantization: str = "none", bytes_per_weight: float | None = None
) -> int:
    """Bytes of the weights. `bytes_per_weight` overrides what `quantization` implies (float32: 4).

    Embeddings and the output head stay in 16 bits in every quantised format, and with MXFP4 all but the experts. So
    Llama-3.1-70B in 8 bits is 72.7 GB, which is what vLLM loads (vllm#12569: 67.7 GiB). Raises KeyError for a
    quantization that is not in BYTES_PER_WEIGHT.
    """
    if bytes_per_weight is not None:
        return int(architecture.parameters * bytes_per_weight)
    small = architecture.parameters - architecture.embedding_parameters
    if quantization == "mxfp4":
        small = architecture.expert_parameters
    return int(small * BYTES_PER_WEIGHT[quantization] + (architecture.parameters - small) * WHOLE_BYTES)


def activation_bytes(
    architecture: Architecture,
    *,
    gpus: int = 1,
    batched_tokens: int = DEFAULT_BATCHED_TOKENS,
    sequences: int = DEFAULT_SEQUENCES,
) -> int:
    """Bytes that the engine keeps free beside weights and KV cache, over all GPUs.

    At its largest a step holds, per token in 16 bits, four vectors of the hidden size and what its widest MLP has open;
    and per sequence the logits in float32 with three copies for sampling. To that comes half a gigabyte per GPU. For
    Llama-3.1-8B 1.5 + 0.5 GB.
    """
    per_token = WHOLE_BYTES * (4 * architecture.hidden_size + _open_in_mlp(architecture, gpus))
    sampling = 16.0 * sequences * architecture.vocabulary
    return int(gpus * (batched_tokens * per_token + sampling + _CONTEXT_BYTES))


def _open_in_mlp(architecture: Architecture, gpus: int) -> float:
    """Numbers per token and rank: both inner vectors and their product; with experts, that of each chosen one.

    The experts' outputs, of the hidden size and before they are added up, take the place of the inner vectors
    (vLLM's fused_moe shares that memory).
    """
    plain = architecture.shared_intermediate_size
    if not architecture.experts or architecture.dense_layers:
        plain = max(plain, architecture.intermediate_size)
    inner = architecture.expert_intermediate_size / gpus
    chosen = architecture.experts_per_token * (max(2 * inner, architecture.hidden_size) + inner)
    return max(3 * plain / gpus, chosen)


@dataclass(frozen=True)
class MemoryFit:
    """The verdict and its arithmetic; all sizes in bytes over the whole worker."""

    weights_bytes: int
    reserve_bytes: int
    usable_bytes: int
    kv_bytes_per_sequence: int  # of max_model_len tokens
    max_model_len: int

    @property
    def kv_bytes_per_token(self) -> int:
        """The mean over a sequence of full length; with sliding windows its first tokens cost more."""
        return -(-self.kv_bytes_per_sequence // self.max_model_len)

    @property
    def kv_budget_bytes(self) -> int:
        """What is left for the KV cache; negative when not even the weights fit."""
        return self.usable_bytes - self.weights_bytes - self.reserve_bytes

    @property
    def kv_tokens(self) -> int:
        """Tokens of full-length sequences that the cache holds."""
        return max(0, self.kv_budget_bytes) * self.max_model_len // self.kv_bytes_per_sequence

    @property
    def sequences(self) -> int:
        """Sequences of full length that fit at once."""
        return max(0, self.kv_budget_bytes) // self.kv_bytes_per_sequence

    @property
    def fits(self) -> bool:
        return self.sequences >= 1

    def sentence(self) -> str:
        """The arithmetic in one line, decimal gigabytes."""
        verdict = "fits" if self.fits else "does not fit"
        return (
            f"weights {_gb(self.weights_bytes)} + reserve {_gb(self.reserve_bytes)} + KV cache of one sequence "
            f"of {self.max_model_len} tokens {_gb(self.kv_bytes_per_sequence)} {verdict} in {_gb(self.usable_bytes)}"
            + (f"; {self.sequences} such sequences at once" if self.fits else "")
        )


def fit(
    architecture: Architecture,
    *,
    memory_bytes: int,
    max_model_len: int,
    gpus: int = 1,
    tensor_parallel: int | None = None,
    utilization: float = 0.9,
    quantization: str = "none",
    kv_dtype: str = "auto",
    bytes_per_weight: float | None = None,
    reserve_bytes: int = 0,
) -> MemoryFit:
    """Does a worker of `gpus` devices with `memory_bytes` each hold the model and one full sequence?

    The devices form one tensor-parallel group, or pipeline stages of `tensor_parallel` devices each.
    `utilization` is the engine's share of the memory (vLLM's --gpu-memory-utilization); `reserve_bytes` is
    kept for activations (`activation_bytes`).
    """
    return MemoryFit(
        weights_bytes=weight_bytes(
            architecture, quantization=quantization, bytes_per_weight=bytes_per_weight
        ),
        reserve_bytes=reserve_bytes,
        usable_bytes=int(memory_bytes * gpus * utilization),
        # Only the ranks of one stage keep copies of a KV head; another stage keeps other layers.
        kv_bytes_per_sequence=kv_bytes_per_sequence(
            architecture, max_model_len, dtype=kv_dtype, gpus=tensor_parallel or gpus
        ),
        max_model_len=max_model_len,
    )


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.3g} GB"
