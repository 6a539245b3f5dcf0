"""vLLM's command line. The same words serve `vllm serve` and `tandem-worker`. Flags as of vLLM 0.32
(`vllm/engine/arg_utils.py`)."""

import json
from collections.abc import Sequence
from typing import Any

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec, Role, Speculative
from tandem_api.kubernetes.cluster import Manifest
from tandem_operator.build.engine_settings import EngineSettings
from tandem_operator.build.engines.engine import Start
from tandem_operator.build.group import parallel_args, rank_args
from tandem_operator.build.images import Images

# The API's words where vLLM has others.
_KV_CACHE_DTYPE = {"bf16": "bfloat16", "fp8": "fp8"}
_SPECULATIVE_METHOD = {"draft": "draft_model"}


class VLLM:
    """vLLM with NIXL between prefill and decode; a worker may change its role while it runs."""

    health_path = "/health"

    def image(self, images: Images) -> str:
        return images.worker

    def command(self) -> list[str] | None:
        return None

    def words(self, start: Start) -> list[str]:
        words = [
            start.model,
            "--served-model-name", start.served_name,
            "--port", str(names.ENGINE_PORT),
            "--shutdown-timeout", str(start.shutdown_timeout_seconds),
        ]  # fmt: skip
        words += parallel_args(start.role)
        if start.place is not None:
            words += rank_args(start.place)
        if start.spec.model.revision is not None:
            words += ["--revision", start.spec.model.revision]
        words += _tuning(start.settings)
        if start.settings.late_demotion and (start.place is None or start.place.leads):
            # For decode workers too, because a role may change on the running engine: the gate holds no request whose
            # prompt was computed elsewhere. A stock image does not know the flag and says so instead of ignoring it.
            words.append("--late-demotion")
        if start.disaggregated:
            words += ["--kv-transfer-config", kv_transfer_config(start.role)]
        return words

    def environment(self, spec: InferenceServiceSpec, role: Role) -> list[Manifest]:
        if spec.mode != "Disaggregated":
            return []
        env: list[Manifest] = [
            # Never localhost: the peer on another node must reach it (field case E6).
            {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(names.NIXL_SIDE_CHANNEL_PORT)},
        ]
        if role.gpus == 0:
            env.append({"name": "UCX_TLS", "value": "tcp"})
        return env

    def annotations(self, spec: InferenceServiceSpec, role: Role) -> dict[str, str]:
        return {}

    def phase(self, spec: InferenceServiceSpec, role: Role) -> str | None:
        return None

    def problem(self, spec: InferenceServiceSpec, role: Role, settings: EngineSettings) -> str | None:
        return None

    def owned(self) -> Sequence[str]:
        return ()


def kv_transfer_config(role: Role) -> str:
    """NIXL's settings as one JSON word, keys in order.

    `kv_both`, because a role may change on the running engine; `fail`, because computing a prompt on a decode
    worker in silence would break both promises (field case F6).
    """
    config = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "fail"}
    if role.gpus == 0:
        config["kv_buffer_device"] = "cpu"
    return _json(config)


def _tuning(settings: EngineSettings) -> list[str]:
    words: list[str] = []
    if settings.max_model_len is not None:
        words += ["--max-model-len", str(settings.max_model_len)]
    if settings.quantization not in (None, "none"):
        words += ["--quantization", str(settings.quantization)]
    if settings.kv_cache_dtype in _KV_CACHE_DTYPE:
        words += ["--kv-cache-dtype", _KV_CACHE_DTYPE[settings.kv_cache_dtype]]
    if settings.block_size is not None:
        words += ["--block-size", str(settings.block_size)]
    if settings.gpu_memory_percent is not None:
        words += ["--gpu-memory-utilization", f"{settings.gpu_memory_percent / 100:g}"]
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
    if settings.speculative is not None:
        words += ["--speculative-config", _speculative_config(settings.speculative)]
    return words


def _speculative_config(speculative: Speculative) -> str:
    """One JSON word (`vllm/config/speculative.py`)."""
    config: dict[str, Any] = {
        "method": _SPECULATIVE_METHOD.get(speculative.method, speculative.method),
        "num_speculative_tokens": speculative.tokens,
    }
    if speculative.model is not None:
        config["model"] = speculative.model
    return _json(config)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
