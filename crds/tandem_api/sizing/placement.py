"""On which GPU, with how many of them, a model and its users fit."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tandem_api.sizing.architecture import Architecture
from tandem_api.sizing.gpus import GPUS, Gpu
from tandem_api.sizing.memory import (
    DEFAULT_BATCHED_TOKENS,
    DEFAULT_SEQUENCES,
    DEFAULT_UTILIZATION,
    MemoryFit,
    activation_bytes,
    fit,
)

# GPUs of one node that form a tensor-parallel group.
TENSOR_PARALLEL: Final = (1, 2, 4, 8)


@dataclass(frozen=True)
class Demand:
    """What a worker shall hold at once: `sequences` of `context` tokens each, and how the engine keeps them."""

    sequences: int = 1
    context: int = 8192
    quantization: str = "none"
    kv_dtype: str = "auto"
    utilization: float = DEFAULT_UTILIZATION
    batched_tokens: int = DEFAULT_BATCHED_TOKENS
    max_sequences: int = DEFAULT_SEQUENCES


@dataclass(frozen=True)
class Placement:
    """A worker of `gpus` GPUs and what it holds. `memory.sequences` is the highest concurrency at full length."""

    gpu: Gpu
    gpus: int
    demand: Demand
    memory: MemoryFit

    @property
    def fits(self) -> bool:
        return self.memory.sequences >= self.demand.sequences

    @property
    def kv_bytes(self) -> int:
        """Of the sequences that are asked for."""
        return self.demand.sequences * self.memory.kv_bytes_per_sequence

    @property
    def spare_bytes(self) -> int:
        """Memory left, or lacking when negative."""
        return self.memory.kv_budget_bytes - self.kv_bytes


def divides(architecture: Architecture, gpus: int) -> bool:
    """Can tensor parallelism share the attention heads evenly? vLLM refuses anything else."""
    heads, kv_heads = architecture.attention_heads, architecture.kv_heads
    if heads % gpus:
        return False
    return architecture.latent is not None or kv_heads % gpus == 0 or gpus % kv_heads == 0


def place(
    architecture: Architecture, gpu: Gpu, gpus: int, demand: Demand, *, tensor_parallel: int | None = None
) -> Placement:
    """The arithmetic of one worker; `tensor_parallel` as for `fit`."""
    memory = fit(
        architecture,
        memory_bytes=gpu.memory_bytes,
        max_model_len=demand.context,
        gpus=gpus,
        tensor_parallel=tensor_parallel,
        utilization=demand.utilization,
        quantization=demand.quantization,
        kv_dtype=demand.kv_dtype,
        reserve_bytes=activation_bytes(
            architecture,
            gpus=gpus,
            batched_tokens=demand.batched_tokens,
            sequences=demand.max_sequences,
        ),
    )
    return Placement(gpu, gpus, demand, memory)


def smallest(
    architecture: Architecture, demand: Demand, gpus: Iterable[Gpu] = tuple(GPUS.values())
) -> list[Placement]:
    """Of each GPU the fewest that hold the demand; GPUs of which not even eight do are left out."""
    found = []
    for gpu in gpus:
        tried = (
            place(architecture, gpu, count, demand)
            for count in TENSOR_PARALLEL
            if divides(architecture, count)
        )
        first = next((placement for placement in tried if placement.fits), None)
        if first is not None:
            found.append(first)
    return found
