"""How a worker's prompts are cut: the manifest's word, or the engine's default. Pure."""

from tandem_api.inference_service import EngineTuning, InferenceServiceSpec
from tandem_api.sizing import Gpu
from tandem_api.sizing.spec import WorkerSpec
from tandem_autoscaler.model.mixed_step import DEFAULT_BUDGET, Chunking

# vLLM's budgets by the GPU's memory, A100s excepted (engine/arg_utils.py, 0.32): (GiB at least, tokens).
_BUDGETS = ((160, 16384), (70, 8192))


def chunking_of(spec: InferenceServiceSpec, worker: WorkerSpec) -> Chunking:
    """Of one role, with vLLM's defaults where the manifest says nothing."""
    over = spec.roles[worker.role].engine or EngineTuning()
    set_here = over.chunked_prefill or spec.engine.chunked_prefill
    budget = default_budget(worker.gpu)
    if set_here is None:
        return Chunking(budget)
    if not set_here.enabled:
        return Chunking(set_here.max_batched_tokens or worker.max_model_len or budget, 0, enabled=False)
    return Chunking(set_here.max_batched_tokens or budget, set_here.long_prompt_threshold or 0)


def default_budget(gpu: Gpu | None) -> int:
    """What vLLM takes where nobody says anything; of an unknown GPU the smaller one."""
    if gpu is None or gpu.name.startswith("A100"):
        return DEFAULT_BUDGET
    return next((tokens for gib, tokens in _BUDGETS if gpu.memory_bytes >= gib * 2**30), DEFAULT_BUDGET)
