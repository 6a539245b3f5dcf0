"""KVCacheFits before a pod starts: told where the model is a catalogue's and the node labels name the GPU.

It is arithmetic, not a measurement: it holds back nothing. A worker's own preflight, which has seen the device and the
files, knows better and wins.
"""

from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.reasons import Condition, Reason
from tandem_api.sizing.placement import Placement, place
from tandem_api.sizing.spec import WorkerSpec, worker_specs
from tandem_operator.build.engine_settings import engine_settings
from tandem_operator.plan.conditions import Verdict

# Engine flags after which the arithmetic is not the engine's any more.
_FOREIGN_FLAGS = ("cpu-offload", "kv-cache-memory", "num-gpu-blocks-override", "hf-overrides",
                  "spec-model", "spec-method")  # fmt: skip


def kv_fit(spec: InferenceServiceSpec) -> Verdict | None:
    """None while it cannot be told for every role."""
    if not spec.model.uri.startswith("hf://") or _has_foreign_flags(spec) or _is_foreign(spec):
        return None
    found: dict[str, list[str]] = {}
    fits = True
    for role, worker in worker_specs(spec).items():
        placed = _placed(worker)
        if placed is None:
            return None
        fits = fits and placed.fits
        sentence = f"{worker.gpus} x {placed.gpu.name}: {placed.memory.sentence()}"
        found.setdefault(sentence, []).append(role)
    if not found:
        return None
    message = "; ".join(f"{' and '.join(roles)}, {sentence}" for sentence, roles in found.items())
    reason = Reason.FITS if fits else Reason.DOES_NOT_FIT
    return Verdict(Condition.KV_CACHE_FITS, "True" if fits else "False", reason, message)


def _placed(worker: WorkerSpec) -> Placement | None:
    if worker.gpu is None or worker.model is None or worker.demand is None or worker.gpus == 0:
        return None
    return place(
        worker.model.architecture, worker.gpu, worker.gpus, worker.demand, tensor_parallel=worker.tensor_parallel
    )  # fmt: skip


def _is_foreign(spec: InferenceServiceSpec) -> bool:
    """The arithmetic is vLLM's, and without a draft model beside the model."""
    drafts = [engine_settings(spec, role).speculative for role in spec.roles.values()]
    return spec.engine.type != "vllm" or any(
        draft is not None and draft.method != "ngram" for draft in drafts
    )


def _has_foreign_flags(spec: InferenceServiceSpec) -> bool:
    engines = [spec.engine, *(role.engine for role in spec.roles.values() if role.engine is not None)]
    flags = [flag.replace("_", "-") for engine in engines for flag in engine.extra_args or ()]
    return any(flag.startswith(f"--{name}") for flag in flags for name in _FOREIGN_FLAGS)
