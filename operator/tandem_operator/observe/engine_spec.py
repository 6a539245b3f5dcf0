"""Settings of the engine that cannot work together, as one sentence for their author.

What the schema alone can tell, the API server refuses by CEL too (`tandem_api.inference_service`); this is for an older
CRD, and for what needs flags to be read.
"""

from collections.abc import Mapping

from tandem_api.inference_service import OWNED_FLAGS, OWNED_SHORT_FLAGS, InferenceServiceSpec, Role
from tandem_operator.build.engine_settings import EngineSettings, engine_settings
from tandem_operator.build.engines import engine_of
from tandem_operator.build.flags import flag_names, flag_value

_SHORT = frozenset(f"-{flag}" for flag in OWNED_SHORT_FLAGS)
# What shapes the KV cache: a prefill and a decode worker that differ in it read garbage or hang (field case E5).
# The settings with a field of their own stand in spec.engine alone; these are the flags.
_AGREED_FLAGS = ("dtype", "hf-overrides", "json-model-override-args", "tokenizer", "tokenizer-path", "rope-scaling",
                 "kv-cache-dtype-skip-layers", "model-impl", "hf-config-path")  # fmt: skip
_DATA_PARALLEL = ("data-parallel-size", "dp-size")


def engine_problem(spec: InferenceServiceSpec) -> str | None:
    """Over all roles; None when there is none."""
    for name, role in spec.roles.items():
        settings = engine_settings(spec, role)
        problem = (
            _owned(spec, settings)
            or _whole_prompts(settings)
            or _parallel(spec, role, settings)
            or engine_of(spec).problem(spec, role, settings)
        )
        if problem:
            return f"spec.{name}: {problem}"
    return _disagreement(spec)


def _owned(spec: InferenceServiceSpec, settings: EngineSettings) -> str | None:
    """Never overridden in silence: what Tandem renders has a field, and a second word for it is refused."""
    owned = {flag.removeprefix("no-") for flag in (*OWNED_FLAGS, *engine_of(spec).owned())}
    found = flag_names(settings.extra_args) & owned
    if found:
        return f"engine.extraArgs contains --{min(found)}, which Tandem sets itself"
    short = [word for word in settings.extra_args if word.partition("=")[0] in _SHORT]
    return f"engine.extraArgs contains {short[0]}, which Tandem sets itself" if short else None


def _whole_prompts(settings: EngineSettings) -> str | None:
    chunked = settings.chunked_prefill
    if (
        chunked is None
        or chunked.enabled
        or chunked.max_batched_tokens is None
        or settings.max_model_len is None
    ):
        return None
    if chunked.max_batched_tokens >= settings.max_model_len:
        return None
    return (
        f"with chunked prefill off, maxBatchedTokens {chunked.max_batched_tokens} must be at least "
        f"maxModelLen {settings.max_model_len}, because a prompt is then computed in one step"
    )


def _parallel(spec: InferenceServiceSpec, role: Role, settings: EngineSettings) -> str | None:
    if role.devices % role.pipeline_size:
        return f"pipelineParallel {role.pipeline_size} must divide nodes x gpus, which is {role.devices}"
    stages = f"pipelineParallel is {role.pipeline_size}; set pipelineParallel: 1"
    if role.pipeline_size > 1 and spec.mode == "Disaggregated":
        return f"the KV transfer of mode Disaggregated does not work over pipeline stages, and {stages}"
    if role.pipeline_size > 1 and spec.engine.late_demotion:
        return f"engine.lateDemotion does not work over pipeline stages, and {stages}"
    copies = [name for name in flag_names(settings.extra_args) if name.startswith("data-parallel")]
    if role.nodes > 1 and (copies or role.data_parallel > 1):
        said = (
            f"engine.extraArgs contains --{min(copies)}"
            if copies
            else f"dataParallel is {role.data_parallel}"
        )
        return f"{said}, which does not go with nodes above 1"
    if flag_names(settings.extra_args) & {*_DATA_PARALLEL} or "-dp" in settings.extra_args:
        return "engine.extraArgs sets the data parallel size; set dataParallel of the role, which counts its GPUs"
    if role.data_parallel > 1 and spec.engine.late_demotion:
        return (
            "engine.lateDemotion orders the prompts of one engine; it does not go with dataParallel above 1"
        )
    return _all_gpus(role)


def _all_gpus(role: Role) -> str | None:
    if role.devices % role.data_parallel:
        return f"dataParallel {role.data_parallel} must divide nodes x gpus, which is {role.devices}"
    asked = (role.tensor_parallel or 0) * role.pipeline_size * role.data_parallel
    if role.tensor_parallel is None or asked == role.devices:
        return None
    sizes = f"tensorParallel {role.tensor_parallel} x pipelineParallel {role.pipeline_size}"
    if role.data_parallel > 1:
        sizes += f" x dataParallel {role.data_parallel}"
    gpus = max(1, role.gpus)
    remedy = f"set nodes: {asked // gpus}" if asked % gpus == 0 and asked > gpus else "make them equal"
    return f"{sizes} needs {asked} GPUs, and nodes {role.nodes} x gpus {gpus} is {role.devices}; {remedy}"


def _disagreement(spec: InferenceServiceSpec) -> str | None:
    """Prefill and decode on what both must have alike (field case E5)."""
    if spec.mode != "Disaggregated" or spec.prefill is None or spec.decode is None:
        return None
    prefill, decode = engine_settings(spec, spec.prefill), engine_settings(spec, spec.decode)
    for flag in _AGREED_FLAGS:
        values = [flag_value(settings.extra_args, flag) for settings in (prefill, decode)]
        if values[0] != values[1]:
            said = ", ".join(
                f"{name} {'has none' if value is None else f'says {value!r}'}"
                for name, value in zip(("prefill", "decode"), values, strict=True)
            )
            return (
                f"prefill and decode must agree on --{flag}, because one reads the other's KV cache: {said}"
            )
    drafts = [_draft(settings) for settings in (prefill, decode)]
    if drafts[0] != drafts[1]:
        return (
            "prefill and decode must have the same engine.speculative, because its head or draft model has a KV cache "
            "too: set it in spec.engine, or use method ngram"
        )
    return None


def _draft(settings: EngineSettings) -> Mapping[str, object] | None:
    speculative = settings.speculative
    return None if speculative is None or speculative.method == "ngram" else speculative.to_wire()
