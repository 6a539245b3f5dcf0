"""What an InferenceService asks of one worker of each role, as far as its manifest tells before a pod starts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tandem_api.inference_service import EngineTuning, InferenceServiceSpec, Role
from tandem_api.sizing.gpus import Gpu, gpu_named
from tandem_api.sizing.memory import (
    DEFAULT_BATCHED_TOKENS,
    DEFAULT_SEQUENCES,
    DEFAULT_UTILIZATION,
)
from tandem_api.sizing.models import Model, model_named
from tandem_api.sizing.placement import Demand

_UTILIZATION: Final = "gpu-memory-utilization"


@dataclass(frozen=True)
class WorkerSpec:
    """One worker. None: the manifest does not say, or says what the catalogues do not know."""

    role: str
    gpus: int  # over all its pods; of one copy of the model where it has several
    tensor_parallel: int
    gpu: Gpu | None
    model: Model | None
    max_model_len: int | None  # by the manifest, else the model's own
    demand: Demand | None  # one sequence of full length; None while that length is unknown


def worker_specs(spec: InferenceServiceSpec) -> dict[str, WorkerSpec]:
    """By role, prefill first."""
    return {name: _worker(name, role, spec) for name, role in spec.roles.items()}


def model_of(spec: InferenceServiceSpec) -> Model | None:
    """The catalogue's model that model.uri names; of a volume or a path, its last part may."""
    return model_named(spec.model.uri.removeprefix("hf://"))


def gpu_of(role: Role) -> Gpu | None:
    """The GPU that the role's node labels name; None when they name none, several, or MIG slices are asked for."""
    if "mig-" in role.gpu_resource:
        return None
    named = {gpu.name: gpu for text in node_labels(role) if (gpu := gpu_named(text)) is not None}
    return next(iter(named.values())) if len(named) == 1 else None


def node_labels(role: Role) -> Iterator[str]:
    """Values of node labels that the role's pods ask for, by selector or by required affinity."""
    pod = (role.template or {}).get("spec")
    if not isinstance(pod, dict):
        return
    selector = pod.get("nodeSelector")
    if isinstance(selector, dict):
        yield from map(str, selector.values())
    wanted: Any = pod.get("affinity")
    for key in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"):
        wanted = wanted.get(key) if isinstance(wanted, dict) else None
    for term in wanted if isinstance(wanted, list) else ():
        for expression in (term.get("matchExpressions") or ()) if isinstance(term, dict) else ():
            if isinstance(expression, dict) and expression.get("operator") == "In":
                yield from map(str, expression.get("values") or ())


def _worker(name: str, role: Role, spec: InferenceServiceSpec) -> WorkerSpec:
    model = model_of(spec)
    length = spec.engine.max_model_len or (model.architecture.max_position if model else None)
    demand = None if length is None else _demand(length, role, spec, model)
    # With copies of the model in one worker, each has its share of the GPUs to itself.
    gpus = role.total_gpus // role.data_parallel
    return WorkerSpec(name, gpus, role.tensor_size, gpu_of(role), model, length, demand)


def _demand(length: int, role: Role, spec: InferenceServiceSpec, model: Model | None) -> Demand:
    base, over = spec.engine, role.engine or EngineTuning()
    asked = over.quantization or base.quantization or "none"
    quantization = model.stored if asked == "none" and model is not None else str(asked)
    chunks = over.chunked_prefill or base.chunked_prefill
    budget = chunks.max_batched_tokens if chunks is not None else None
    if budget is None and chunks is not None and not chunks.enabled:
        budget = length  # a prompt is then computed in one step
    sequences = over.max_sequences or base.max_sequences
    return Demand(
        sequences=1,
        context=length,
        quantization=quantization,
        kv_dtype=base.kv_cache_dtype,
        utilization=_utilization(
            [*(base.extra_args or ()), *(over.extra_args or ())],
            over.gpu_memory_percent or base.gpu_memory_percent,
        ),
        batched_tokens=budget or DEFAULT_BATCHED_TOKENS,
        max_sequences=sequences or DEFAULT_SEQUENCES,
    )


def _utilization(arguments: list[str], percent: int | None) -> float:
    """The last --gpu-memory-utilization among the extra flags, else gpuMemoryPercent; vLLM's default without one that
    makes sense."""
    found = DEFAULT_UTILIZATION if percent is None else percent / 100
    for at, argument in enumerate(arguments):
        flag, _, value = argument.replace("_", "-").partition("=")
        if flag != f"--{_UTILIZATION}":
            continue
        text = value or (arguments[at + 1] if at + 1 < len(arguments) else "")
        try:
            share = float(text)
        except ValueError:
            continue
        found = share if 0 < share <= 1 else found
    return found
