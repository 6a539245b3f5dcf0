"""What a worker can probably do, from the GPU's data sheet and the model's shape, before anything was measured.

ALGORITHM 4.2 with three refinements that the latency grid of aiconfigurator-core 0.12.0 (A100, H100, H200; 8B to 70B;
bf16 and fp8; TP 1 to 8) asked for: matrix products, attention and reads each reach a share of the peak of their own;
every layer costs something to launch, which is what is left where fp8 and tensor parallelism make its weights small;
tensor parallelism sends every token's activations twice per layer over the link between the GPUs. How far off it is
from measured workers: tests/autoscaler/test_priors_are_near_the_measured_workers.py. Calibration does the rest.
"""

import math
from dataclasses import dataclass

from tandem_api.sizing import Architecture, fit, kv_bytes_per_token, weight_bytes
from tandem_autoscaler.model.decode import DecodePrior
from tandem_autoscaler.model.prefill import PrefillPrior

# Shares of the peak that the engine's kernels reach.
MATMUL, MATMUL_FP8, ATTENTION, READ = 0.72, 0.52, 0.42, 0.80
# Launching a layer, and each doubling of the GPUs that must agree after it.
LAYER_SECONDS, LAYER_SECONDS_PER_DOUBLING = 45e-6, 6e-6
# HTTP, tokenizer, scheduling of one prompt, and the share of a weights' read that a long prompt's work does not hide.
PROMPT_SECONDS, PROMPT_WEIGHT_READS = 0.010, 0.75
# Activations, CUDA graphs and what else the engine keeps, per GPU.
RESERVE_BYTES = 4_500_000_000
ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class Gpu:
    """Data sheet of one GPU: dense FLOP/s, memory, and what an all-reduce moves per second (measured, not the peak).

    `read` is the share of `bytes_per_second` that kernels reach. `fp8_flops` equals `bf16_flops` where the GPU has no
    fp8 units: the weights are then only smaller.
    """

    name: str
    bf16_flops: float
    fp8_flops: float
    bytes_per_second: float
    memory_bytes: int
    link_bytes_per_second: float
    read: float = READ


_MIB = 2**20
GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("A100", 312e12, 312e12, 2.04e12, 81_920 * _MIB, 90e9, read=0.72),
        Gpu("H100", 989e12, 1979e12, 3.35e12, 81_559 * _MIB, 135e9),
        Gpu("H200", 989e12, 1979e12, 4.8e12, 143_771 * _MIB, 135e9),
        Gpu("B200", 2250e12, 4500e12, 8.0e12, 183_359 * _MIB, 270e9),
        Gpu("L40S", 362e12, 733e12, 0.864e12, 46_068 * _MIB, 20e9),
        Gpu("MI300X", 1307e12, 2615e12, 5.3e12, 196_592 * _MIB, 100e9),
    )
}


def gpu_named(product: str) -> Gpu | None:
    """The GPU whose name is in a product label such as `NVIDIA-H100-80GB-HBM3`; None when there is none."""
    return next((gpu for name, gpu in GPUS.items() if name.lower() in product.lower()), None)


@dataclass(frozen=True)
class WorkerPrior:
    """S(n) = a + b n + c n^2 and tau(B, K) = d0 + d1 B + d2 K in seconds, and the tokens that the KV cache holds."""

    prefill: tuple[float, float, float]
    decode: tuple[float, float, float]
    kv_tokens: int

    def prefill_prior(self) -> PrefillPrior:
        a, b, c = self.prefill
        return PrefillPrior(base_seconds=a, seconds_per_token=b, curvature=c / b)

    def decode_prior(self) -> DecodePrior:
        d0, d1, d2 = self.decode
        return DecodePrior(base_seconds=d0, seconds_per_sequence=d1, context_weight=d2 / d1)


def worker_prior(
    architecture: Architecture,
    gpu: Gpu,
    *,
    gpus: int = 1,
    quantization: str = "none",
    kv_dtype: str = "auto",
    active_parameters: int | None = None,
) -> WorkerPrior:
    """The worker of `gpus` devices in one tensor-parallel group.

    `active_parameters` of a mixture of experts are those that one token passes; all are read in a batch. `kv_tokens`
    is 0 when not even the weights fit.
    """
    flops, reached = (gpu.fp8_flops, MATMUL_FP8) if quantization == "fp8" else (gpu.bf16_flops, MATMUL)
    work = 2.0 * (active_parameters or architecture.parameters)  # FLOP per token
    width = architecture.attention_heads * architecture.head_dim
    sent = 0.0  # seconds per token on the link
    if gpus > 1:
        volume = 2.0 * architecture.layers * architecture.hidden_size * ACTIVATION_BYTES
        sent = volume / gpu.link_bytes_per_second
    weights = weight_bytes(architecture, quantization=quantization)
    kv_bytes = kv_bytes_per_token(architecture, dtype=kv_dtype)
    bandwidth = gpu.bytes_per_second * gpus * gpu.read

    layer = LAYER_SECONDS + LAYER_SECONDS_PER_DOUBLING * math.log2(gpus)
    read = weights / bandwidth + architecture.layers * layer
    memory = fit(
        architecture,
        memory_bytes=gpu.memory_bytes,
        max_model_len=1,
        gpus=gpus,
        quantization=quantization,
        kv_dtype=kv_dtype,
        reserve_bytes=RESERVE_BYTES * gpus,
    )
    return WorkerPrior(
        prefill=(
            PROMPT_SECONDS + PROMPT_WEIGHT_READS * read,
            work / (flops * gpus * reached) + sent,
            # Causal: half of the n x n products of queries with keys and with values, 2 FLOP each, in bf16.
            2.0 * width * architecture.layers / (gpu.bf16_flops * gpus * ATTENTION),
        ),
        decode=(
            read,
            # A batch reads its weights once; what it adds is arithmetic, hidden only in part behind that read.
            work / (gpu.bf16_flops * gpus) + sent / 2.0,
            kv_bytes / bandwidth,
        ),
        kv_tokens=memory.kv_tokens,
    )
