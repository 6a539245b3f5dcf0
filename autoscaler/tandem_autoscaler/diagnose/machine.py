"""What is known of one worker beyond its measurements, and how its times change on another one."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.sizing import GPUS, Architecture, Gpu, activation_bytes, fit
from tandem_api.sizing.spec import worker_specs
from tandem_autoscaler.model.priors import WorkerPrior, worker_prior


@dataclass(frozen=True)
class Machine:
    """`gpus` in tensor parallel hold `architecture`."""

    architecture: Architecture
    gpu: Gpu
    gpus: int = 1
    quantization: str = "none"
    kv_dtype: str = "auto"

    @property
    def prior(self) -> WorkerPrior:
        return worker_prior(
            self.architecture,
            self.gpu,
            gpus=self.gpus,
            quantization=self.quantization,
            kv_dtype=self.kv_dtype,
        )

    @property
    def kv_tokens(self) -> int:
        """Tokens of short sequences that the KV cache holds."""
        memory = fit(
            self.architecture, memory_bytes=self.gpu.memory_bytes, max_model_len=1, gpus=self.gpus,
            quantization=self.quantization, kv_dtype=self.kv_dtype,
            reserve_bytes=activation_bytes(self.architecture, gpus=self.gpus),
        )  # fmt: skip
        return memory.kv_tokens


@dataclass(frozen=True)
class Change:
    """By what the times of a worker are multiplied, and what its KV cache then holds of what it held.

    The ratios are the data sheets'; they are applied to what was learnt from the real worker.
    """

    prompt: float = 1.0
    step: float = 1.0
    sequence: float = 1.0
    context: float = 1.0
    kv_room: float = 1.0


def change(before: Machine, after: Machine, *, prompt_tokens: float) -> Change | None:
    """None when `after` cannot hold the model. `prompt_tokens`: the length at which prompts are compared."""
    if after.kv_tokens <= 0 or before.kv_tokens <= 0:
        return None
    old, new = before.prior, after.prior

    def prompt_seconds(prior: WorkerPrior) -> float:
        a, b, c = prior.prefill
        return a + b * prompt_tokens + c * prompt_tokens * prompt_tokens

    return Change(
        prompt=prompt_seconds(new) / prompt_seconds(old),
        step=new.decode[0] / old.decode[0],
        sequence=new.decode[1] / old.decode[1],
        context=new.decode[2] / old.decode[2],
        kv_room=after.kv_tokens / before.kv_tokens,
    )


def in_fp8(machine: Machine) -> Machine | None:
    """With weights in fp8; None where the GPU has no fp8 units or they are small already."""
    if machine.quantization != "none" or not machine.gpu.has_fp8:
        return None
    return replace(machine, quantization="fp8")


def in_four_bits(machine: Machine) -> Machine | None:
    """With AWQ weights, for GPUs without fp8 units."""
    if machine.quantization != "none" or machine.gpu.has_fp8:
        return None
    return replace(machine, quantization="awq")


def with_small_kv(machine: Machine) -> Machine | None:
    return replace(machine, kv_dtype="fp8") if machine.kv_dtype != "fp8" else None


def with_more_bandwidth(machine: Machine) -> Machine | None:
    """On the next GPU of the list that reads faster and is not slower in anything else."""
    return _next(machine, lambda gpu: gpu.bytes_per_second)


def with_more_flops(machine: Machine) -> Machine | None:
    return _next(machine, lambda gpu: gpu.bf16_flops)


_DATACENTRE = ("A100-40GB", "A100", "H100", "H200", "B200", "MI300X", "MI325X", "MI355X")


def _next(machine: Machine, key: Callable[[Gpu], float]) -> Machine | None:
    now = machine.gpu
    vendor = now.name.startswith("MI")
    better = [
        gpu
        for name in _DATACENTRE
        if (gpu := GPUS[name]).name.startswith("MI") == vendor
        and key(gpu) >= 1.15 * key(now)
        and gpu.bytes_per_second >= now.bytes_per_second
        and gpu.bf16_flops >= now.bf16_flops
        and gpu.memory_bytes >= now.memory_bytes
    ]
    return replace(machine, gpu=min(better, key=key)) if better else None


def machines_of(spec: InferenceServiceSpec) -> dict[str, Machine]:
    """By role; only those of which the manifest tells model and GPU, and that are one tensor-parallel group."""
    found = {}
    for role, worker in worker_specs(spec).items():
        known = worker.model is not None and worker.gpu is not None and worker.demand is not None
        if not known or worker.gpus == 0 or worker.gpus != worker.tensor_parallel:
            continue
        assert worker.model is not None and worker.gpu is not None and worker.demand is not None
        found[role] = Machine(
            worker.model.architecture,
            worker.gpu,
            worker.gpus,
            worker.demand.quantization,
            worker.demand.kv_dtype,
        )
    return found
