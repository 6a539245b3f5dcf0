"""spec.engine with one role's override laid over it."""

from dataclasses import dataclass

from tandem_api.inference_service import (
    ChunkedPrefill,
    EngineTuning,
    InferenceServiceSpec,
    Role,
    Speculative,
)
from tandem_operator.build.flags import merge_flags


@dataclass(frozen=True)
class EngineSettings:
    """What one role's engine is told. None: not said, so the engine's own default holds."""

    max_model_len: int | None
    kv_cache_dtype: str
    quantization: str | None
    chunked_prefill: ChunkedPrefill | None
    max_sequences: int | None
    prefix_caching: bool | None
    late_demotion: bool | None
    extra_args: tuple[str, ...]
    block_size: int | None = None
    gpu_memory_percent: int | None = None
    speculative: Speculative | None = None


def engine_settings(spec: InferenceServiceSpec, role: Role) -> EngineSettings:
    """The role's word wins field by field; its extra flags come after the service's and win by flag name."""
    base, over = spec.engine, role.engine or EngineTuning()
    return EngineSettings(
        max_model_len=base.max_model_len,
        kv_cache_dtype=base.kv_cache_dtype,
        quantization=over.quantization if over.quantization is not None else base.quantization,
        chunked_prefill=_chunked(base.chunked_prefill, over.chunked_prefill),
        max_sequences=over.max_sequences if over.max_sequences is not None else base.max_sequences,
        prefix_caching=over.prefix_caching if over.prefix_caching is not None else base.prefix_caching,
        late_demotion=base.late_demotion or None,
        extra_args=merge_flags((*(base.extra_args or ()), *(over.extra_args or ()))),
        block_size=base.block_size,
        gpu_memory_percent=over.gpu_memory_percent or base.gpu_memory_percent,
        speculative=over.speculative or base.speculative,
    )


def _chunked(base: ChunkedPrefill | None, over: ChunkedPrefill | None) -> ChunkedPrefill | None:
    if base is None or over is None:
        return over or base
    budget = over.max_batched_tokens if over.max_batched_tokens is not None else base.max_batched_tokens
    threshold = (
        over.long_prompt_threshold if over.long_prompt_threshold is not None else base.long_prompt_threshold
    )
    # An inherited threshold may not exceed the role's own, smaller budget.
    if budget is not None and threshold is not None:
        threshold = min(threshold, budget)
    return ChunkedPrefill(enabled=over.enabled, max_batched_tokens=budget, long_prompt_threshold=threshold)
