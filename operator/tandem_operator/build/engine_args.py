"""vLLM's command line for one role. The same words serve `vllm serve` and `tandem-worker`."""

import json
from dataclasses import dataclass

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec, Role
from tandem_operator.build.engine_settings import EngineSettings, engine_settings
from tandem_operator.build.flags import merge_flags
from tandem_operator.build.group import Place, parallel_args, rank_args

# The API's words where vLLM has others.
_KV_CACHE_DTYPE = {"bf16": "bfloat16", "fp8": "fp8"}


@dataclass(frozen=True)
class ModelPlace:
    """Where the engine finds the model; `claim` is a PersistentVolumeClaim to mount, read-only."""

    argument: str
    claim: str | None = None


MODEL_MOUNT = "/mnt/model"


def model_place(uri: str) -> ModelPlace:
    """hf://organisation/name -> its id; path:///x -> /x; pvc://claim/sub -> below the claim's mount."""
    scheme, _, rest = uri.partition("://")
    if scheme == "hf":
        return ModelPlace(rest)
    if scheme == "path":
        return ModelPlace(rest)
    claim, _, path = rest.partition("/")
    return ModelPlace(f"{MODEL_MOUNT}/{path.strip('/')}", claim=claim)


def kv_transfer_config(role: Role) -> str:
    """NIXL's settings as one JSON word, keys in order.

    `kv_both`, because a role may change on the running engine; `fail`, because computing a prompt on a decode
    worker in silence would break both promises (field case F6).
    """
    config = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "fail"}
    if role.gpus == 0:
        config["kv_buffer_device"] = "cpu"
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


def engine_args(
    service: str,
    spec: InferenceServiceSpec,
    role: Role,
    *,
    shutdown_timeout_seconds: int,
    place: Place | None = None,
) -> list[str]:
    """The words after the image's entry point: model, what Tandem owns, the tuning, the user's own last.

    `place` is that of a pod in its group, None for a worker of one pod.
    """
    settings = engine_settings(spec, role)
    words = [
        model_place(spec.model.uri).argument,
        "--served-model-name", spec.model.name or service,
        "--port", str(names.ENGINE_PORT),
        "--shutdown-timeout", str(shutdown_timeout_seconds),
    ]  # fmt: skip
    words += parallel_args(role)
    if place is not None:
        words += rank_args(place)
    words += _tuning(settings)
    if settings.late_demotion and (place is None or place.leads):
        # For decode workers too, because a role may change on the running engine: the gate holds no request whose
        # prompt was computed elsewhere. A stock image does not know the flag and says so instead of ignoring it.
        words.append("--late-demotion")
    if spec.mode == "Disaggregated":
        words += ["--kv-transfer-config", kv_transfer_config(role)]
    return list(merge_flags((*words, *settings.extra_args)))


def _tuning(settings: EngineSettings) -> list[str]:
    words: list[str] = []
    if settings.max_model_len is not None:
        words += ["--max-model-len", str(settings.max_model_len)]
    if settings.quantization not in (None, "none"):
        words += ["--quantization", str(settings.quantization)]
    if settings.kv_cache_dtype in _KV_CACHE_DTYPE:
        words += ["--kv-cache-dtype", _KV_CACHE_DTYPE[settings.kv_cache_dtype]]
    chunked = settings.chunked_prefill
    if chunked is not None:
        # An explicit false must survive: left out, the engine would chunk by default (field case E4).
        words.append("--enable-chunked-prefill" if chunked.enabled else "--no-enable-chunked-prefill")
        if chunked.max_batched_tokens is not None:
            words += ["--max-num-batched-tokens", str(chunked.max_batched_tokens)]
        if chunked.long_prompt_threshold is not None:
            words += ["--long-prefill-token-threshold", str(chunked.long_prompt_threshold)]
    if settings.max_sequences is not None:
        words += ["--max-num-seqs", str(settings.max_sequences)]
    if settings.prefix_caching is not None:
        words.append("--enable-prefix-caching" if settings.prefix_caching else "--no-enable-prefix-caching")
    return words
