"""What no worker can exceed: the roofline of the data sheet. Real engines reach 50 to 80 % of it."""

from dataclasses import dataclass

from tandem_api.sizing.architecture import Architecture
from tandem_api.sizing.gpus import Gpu
from tandem_api.sizing.memory import BYTES_PER_WEIGHT, kv_bytes_per_sequence, weight_bytes


@dataclass(frozen=True)
class Ceilings:
    """Of one worker of some GPUs in tensor parallel."""

    prefill_tokens_per_second: float
    steps_per_second: float  # decode steps of one sequence with an empty context
    batch_steps_per_second: float  # with `batch` sequences of `context` tokens
    batch: int
    context: int

    @property
    def bound_by_arithmetic(self) -> bool:
        """True when the batch is so large that reading the weights is no longer what takes longest."""
        return self.prefill_tokens_per_second <= self.decode_tokens_per_second * (1 + 1e-9)

    @property
    def decode_tokens_per_second(self) -> float:
        """Over the whole batch."""
        return self.batch * self.batch_steps_per_second


def prefill_tokens_per_second(
    architecture: Architecture, gpu: Gpu, *, gpus: int = 1, quantization: str = "none"
) -> float:
    """FLOP/s over 2 FLOP per active parameter and token; the attention between tokens comes on top."""
    flops = gpu.fp8_flops if quantization == "fp8" else gpu.bf16_flops
    return flops * gpus / (2.0 * architecture.active_parameters)


def step_bytes(
    architecture: Architecture, *, batch: int, context: int, gpus: int = 1, quantization: str = "none",
    kv_dtype: str = "auto",
) -> float:  # fmt: skip
    """Bytes that one decode step reads: all weights once, and the KV cache of the batch.

    Of a mixture of experts only those that some sequence of the batch has chosen: a share 1 - (1 - k/E)^B where each
    of B sequences takes k of E at random.
    """
    weights = float(weight_bytes(architecture, quantization=quantization))
    if architecture.experts and architecture.experts_per_token:
        unread = (1.0 - architecture.experts_per_token / architecture.experts) ** batch
        weights -= unread * architecture.expert_parameters * BYTES_PER_WEIGHT[quantization]
    return weights + batch * kv_bytes_per_sequence(architecture, context, dtype=kv_dtype, gpus=gpus)


def ceilings(
    architecture: Architecture, gpu: Gpu, *, batch: int, context: int, gpus: int = 1, quantization: str = "none",
    kv_dtype: str = "auto",
) -> Ceilings:  # fmt: skip
    """The ceilings of prefill (arithmetic) and of decode (memory bandwidth, and arithmetic for large batches).

    Llama-3.1-8B on one H100: 16.1 GB over 3.35 TB/s are at most 209 steps a second.
    """
    computed = prefill_tokens_per_second(architecture, gpu, gpus=gpus, quantization=quantization)

    def steps(sequences: int, tokens: int) -> float:
        read = step_bytes(
            architecture, batch=sequences, context=tokens, gpus=gpus, quantization=quantization, kv_dtype=kv_dtype
        )  # fmt: skip
        return min(gpu.bytes_per_second * gpus / read, computed / sequences)

    return Ceilings(computed, steps(1, 0), steps(max(1, batch), context), max(1, batch), context)
