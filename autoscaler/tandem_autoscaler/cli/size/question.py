"""What is asked: from the flags alone, or from a manifest with the flags laid over it."""

from dataclasses import dataclass, replace

from tandem_api import names
from tandem_api.sizing import GPUS, Demand, Gpu, Model, gpu_named
from tandem_api.sizing.placement import divides
from tandem_api.sizing.spec import WorkerSpec, worker_specs
from tandem_autoscaler.cli.manifest import Manifest
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.size.source import find_model


@dataclass(frozen=True)
class Wanted:
    """The flags. None: not given."""

    model: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    concurrency: int | None = None
    context: int | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    utilization: float | None = None
    batched_tokens: int | None = None


@dataclass(frozen=True)
class Question:
    """One worker. `gpu` None: which one is what is asked."""

    role: str | None
    model: Model
    gpu: Gpu | None
    gpus: int
    tensor_parallel: int
    demand: Demand
    notes: tuple[str, ...] = ()


def from_flags(wanted: Wanted) -> Question:
    """Raises Mistake."""
    if wanted.model is None:
        raise Mistake("say which model: --model NAME, or a manifest with -f")
    model = find_model(wanted.model)
    context = wanted.context
    notes: tuple[str, ...] = ()
    if context is None:
        context = _length(model)
        notes = (f"context {context:,}: the model's own maximum; --context asks for another",)
    gpus = wanted.gpus or 1
    demand = Demand(sequences=1, context=context, quantization=model.stored)
    return _asked(Question(None, model, _gpu(wanted), gpus, gpus, demand, notes), wanted)


def from_manifest(manifest: Manifest, wanted: Wanted) -> list[Question]:
    """One question per role; roles that ask the same are one. Raises Mistake."""
    found: list[Question] = []
    for worker in worker_specs(manifest.spec).values():
        question = _of_role(worker, manifest, wanted)
        same = next((one for one in found if replace(one, role=None) == replace(question, role=None)), None)
        if same is None:
            found.append(question)
        else:
            found[found.index(same)] = replace(same, role=f"{same.role} and {question.role}")
    if not found:
        raise Mistake(f"{manifest.name} has no roles: mode Disaggregated needs spec.prefill and spec.decode")
    return found


def _of_role(worker: WorkerSpec, manifest: Manifest, wanted: Wanted) -> Question:
    model, uri = worker.model, manifest.spec.model.uri
    if wanted.model is not None:
        model = find_model(wanted.model)
    elif model is None and uri.startswith("hf://"):
        model = find_model(uri.removeprefix("hf://"))
    if model is None:
        raise Mistake(f"{uri} does not say which model it is: name it, or its directory, with --model")
    if worker.gpus == 0 and wanted.gpus is None:
        raise Mistake(f"{worker.role} runs on the CPU (gpus: 0), which is not sized; ask with --gpus")
    length = wanted.context or worker.max_model_len or _length(model)
    demand = worker.demand or Demand()
    quantization = demand.quantization if demand.quantization != "none" else model.stored
    demand = replace(demand, context=length, quantization=quantization)
    notes = []
    if manifest.spec.engine.max_model_len is None and wanted.context is None:
        notes.append(f"engine.maxModelLen is not set: the model's own {length:,} tokens")
    if manifest.spec.mode == "Disaggregated" and model.architecture.window_layers:
        notes.append(
            "sliding windows save memory only if the engine's KV connector supports the hybrid cache"
        )
    role = None if worker.role == names.WORKERS else worker.role
    gpu = _gpu(wanted) or worker.gpu
    if gpu is None:
        notes.append("no node label of the manifest names its GPU; --gpu does")
    question = Question(role, model, gpu, worker.gpus, worker.tensor_parallel, demand, tuple(notes))
    if wanted.gpus is not None:
        question = replace(question, gpus=wanted.gpus, tensor_parallel=wanted.gpus)
    return _asked(question, wanted)


def _asked(question: Question, wanted: Wanted) -> Question:
    """With the demand's flags."""
    demand = question.demand
    demand = replace(
        demand,
        sequences=wanted.concurrency or demand.sequences,
        quantization=wanted.quantization or demand.quantization,
        kv_dtype=wanted.kv_cache_dtype or demand.kv_dtype,
        utilization=wanted.utilization or demand.utilization,
        batched_tokens=wanted.batched_tokens or demand.batched_tokens,
    )
    if question.model.architecture.experts:
        note = "expected speed takes it that a step reads all experts; that of few sequences reads fewer"
        question = replace(question, notes=(*question.notes, note))
    if question.model.architecture.latent and question.tensor_parallel > 1:
        note = f"latent attention: each of the {question.tensor_parallel} GPUs keeps the whole KV cache"
        question = replace(question, notes=(*question.notes, note))
    most = question.model.architecture.max_position
    if most is not None and demand.context > most:
        note = f"{question.model.name} was trained for {most:,} tokens; the engine refuses {demand.context:,}"
        question = replace(question, notes=(*question.notes, note))
    if not divides(question.model.architecture, question.tensor_parallel):
        heads = question.model.architecture.attention_heads
        raise Mistake(
            f"{question.tensor_parallel} GPUs in tensor parallel cannot share the {heads} attention heads "
            f"({question.model.architecture.kv_heads} KV heads) of {question.model.name}"
        )
    return replace(question, demand=demand)


def _length(model: Model) -> int:
    position = model.architecture.max_position
    if position is None:
        raise Mistake(f"{model.name} does not say how long its contexts are: give --context")
    return position


def _gpu(wanted: Wanted) -> Gpu | None:
    if wanted.gpu is None:
        return None
    found = gpu_named(wanted.gpu)
    if found is None:
        raise Mistake(f"there is no GPU {wanted.gpu!r} in the list; there are {', '.join(GPUS)}")
    return found
