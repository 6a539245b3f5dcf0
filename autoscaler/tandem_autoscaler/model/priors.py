"""What a worker can probably do, from the GPU's data sheet and the model's shape, before anything was measured.

ALGORITHM 4.2 with three refinements that the latency grid of aiconfigurator-core 0.12.0 (A100, H100, H200; 8B to 70B;
bf16 and fp8; TP 1 to 8) asked for: matrix products, attention and reads each reach a share of the peak of their own;
every layer costs something to launch, which is what is left where fp8 and tensor parallelism make its weights small;
tensor parallelism sends every token's activations twice per layer over the link between the GPUs. How far off it is
from measured workers: tests/autoscaler/test_priors_are_near_the_measured_workers.py. Calibration does the rest.
"""

import math
from dataclasses import dataclass

from tandem_api.sizing import Architecture, Gpu, fit, kv_bytes_per_token
from tandem_api.sizing.memory import BYTES_PER_WEIGHT
from tandem_autoscaler.model.decode import DecodePrior
from tandem_autoscaler.model.prefill import PrefillPrior

# Shares of the peak that the engine's kernels reach.
MATMUL, MATMUL_FP8, ATTENTION, READ = 0.72, 0.52, 0.42, 0.80
_READ_OF = {"A100": 0.72, "A100-40GB": 0.72}
# Launching a layer, and each doubling of the GPUs that must agree after it.
LAYER_SECONDS, LAYER_SECONDS_PER_DOUBLING = 45e-6, 6e-6
# HTTP, tokenizer, scheduling of one prompt, and the share of a weights' read that a long prompt's work does not hide.
PROMPT_SECONDS, PROMPT_WEIGHT_READS = 0.010, 0.75
# What the grid's engines keep of each GPU for activations and CUDA graphs; vLLM's own part is `activation_bytes`.
RESERVE_BYTES = 4_500_000_000
ACTIVATION_BYTES = 2.0


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

    `active_parameters` of a mixture of experts are those that one token passes, by default the architecture's; all are
    read in a batch. `kv_tokens` is 0 when not even the weights fit.
    """
    flops, reached = (gpu.fp8_flops, MATMUL_FP8) if quantization == "fp8" else (gpu.bf16_flops, MATMUL)
    work = 2.0 * (active_parameters or architecture.active_parameters)  # FLOP per token
    width = architecture.attention_heads * architecture.head_dim
    sent = 0.0  # seconds per token on the link
    if gpus > 1:
        volume = 2.0 * architecture.layers * architecture.hidden_size * ACTIVATION_BYTES
        sent = volume / gpu.link_bytes_per_second
    # Not `weight_bytes`: of a quantised model the head is larger than this, but the table of tokens is not read.
    weights = architecture.parameters * BYTES_PER_WEIGHT[quantization]
    kv_bytes = kv_bytes_per_token(architecture, dtype=kv_dtype, gpus=gpus)
    bandwidth = gpu.bytes_per_second * gpus * _READ_OF.get(gpu.name, READ)

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
