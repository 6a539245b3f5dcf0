"""SGLang's command line. Flags as of SGLang 0.5.23 (`sglang/srt/arg_groups/fields`).

Where it is another engine than vLLM, for the platform:
* Prefill or decode is a flag, and the change of role on the running engine needs another transfer backend than NIXL
  (`--enable-pd-role-switch`: Mooncake, MORI). So a worker keeps its role, and the two roles have two template hashes.
* Prefill and decode get a request at the same time and meet at the prefill worker's bootstrap port, which the router
  must know: it reads it from the pod's annotation.
* `/health` computes a token and waits behind long prompts (sglang#22511); `/ready` is a flag.
* After SIGTERM it finishes what is open, without a deadline, and takes new requests: the gate is what stops those.
"""

from collections.abc import Sequence

from tandem_api import names
from tandem_api.inference_service import SGLANG_OWNED_FLAGS, InferenceServiceSpec, Role, Speculative
from tandem_api.kubernetes.cluster import Manifest
from tandem_operator.build.engine_settings import EngineSettings
from tandem_operator.build.engines.engine import Start
from tandem_operator.build.images import Images

BOOTSTRAP_PORT = 8998
# Where sglang-router looks for the port (its `service_discovery.rs`).
BOOTSTRAP_ANNOTATION = "sglang.ai/bootstrap-port"
# Its images have no entry point of their own. `exec`, so that the engine is process 1 and gets SIGTERM itself: a
# signal to its whole process group ends the scheduler in the middle of its requests.
_COMMAND = (
    "if command -v tandem-worker >/dev/null; "
    'then exec tandem-worker --engine=sglang "$@"; '
    'else exec python3 -m sglang.launch_server "$@"; fi'
)
_KV_CACHE_DTYPE = {"bf16": "bf16", "fp8": "fp8_e4m3"}
_ALGORITHM = {"ngram": "NGRAM", "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN", "draft": "STANDALONE"}


class SGLang:
    """SGLang; prefill and decode with NIXL as the transfer backend."""

    health_path = "/ready"

    def image(self, images: Images) -> str:
        return images.sglang_worker

    def command(self) -> list[str] | None:
        return ["sh", "-c", _COMMAND, "engine"]

    def words(self, start: Start) -> list[str]:
        role = start.role
        words = [
            "--model-path", start.model,
            "--served-model-name", start.served_name,
            "--host", "0.0.0.0",
            "--port", str(names.ENGINE_PORT),
            "--enable-metrics",
        ]  # fmt: skip
        if role.gpus > 0:
            words += ["--tp-size", str(role.tensor_size)]
        if role.pipeline_size > 1:
            words += ["--pp-size", str(role.pipeline_size)]
        if role.data_parallel > 1:
            words += ["--dp-size", str(role.data_parallel)]
        if start.spec.model.revision is not None:
            words += ["--revision", start.spec.model.revision]
        words += _tuning(start.settings)
        if start.disaggregated:
            words += [
                "--disaggregation-mode", start.spec.role_name(role),
                "--disaggregation-transfer-backend", "nixl",
                "--disaggregation-bootstrap-port", str(BOOTSTRAP_PORT),
            ]  # fmt: skip
        return words

    def environment(self, spec: InferenceServiceSpec, role: Role) -> list[Manifest]:
        if spec.mode != "Disaggregated":
            return []
        # What it tells its peer to connect to (`sglang/srt/utils/network.py`); unset, it guesses by the default route.
        env: list[Manifest] = [
            {"name": "SGLANG_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        ]
        if role.gpus == 0:
            env.append({"name": "UCX_TLS", "value": "tcp"})
        return env

    def annotations(self, spec: InferenceServiceSpec, role: Role) -> dict[str, str]:
        if self.phase(spec, role) == names.PREFILL:
            return {BOOTSTRAP_ANNOTATION: str(BOOTSTRAP_PORT)}
        return {}

    def phase(self, spec: InferenceServiceSpec, role: Role) -> str | None:
        return spec.role_name(role) if spec.mode == "Disaggregated" else None

    def problem(self, spec: InferenceServiceSpec, role: Role, settings: EngineSettings) -> str | None:
        if role.nodes > 1:
            return (
                f"nodes is {role.nodes}, and engine.type sglang runs on one node per worker; set nodes: 1 or "
                "engine.type: vllm"
            )
        if settings.late_demotion:
            return "engine.lateDemotion is for engine.type vllm; remove it"
        chunked = settings.chunked_prefill
        if chunked is not None and chunked.long_prompt_threshold is not None:
            return (
                "SGLang has no chunkedPrefill.longPromptThreshold: "
                "set a smaller chunkedPrefill.maxBatchedTokens instead"
            )
        if spec.mode == "Disaggregated" and spec.router.policy == "consistent_hash":
            return (
                "the router of a Disaggregated SGLang service has no policy consistent_hash; choose cache_aware, "
                "power_of_two, round_robin or random"
            )
        return None

    def owned(self) -> Sequence[str]:
        return SGLANG_OWNED_FLAGS


def _tuning(settings: EngineSettings) -> list[str]:
    words: list[str] = []
    if settings.max_model_len is not None:
        words += ["--context-length", str(settings.max_model_len)]
    if settings.quantization not in (None, "none"):
        words += ["--quantization", str(settings.quantization)]
    if settings.kv_cache_dtype in _KV_CACHE_DTYPE:
        words += ["--kv-cache-dtype", _KV_CACHE_DTYPE[settings.kv_cache_dtype]]
    if settings.block_size is not None:
        words += ["--page-size", str(settings.block_size)]
    if settings.gpu_memory_percent is not None:
        words += ["--mem-fraction-static", f"{settings.gpu_memory_percent / 100:g}"]
    chunked = settings.chunked_prefill
    if chunked is not None and not chunked.enabled:
        words += ["--chunked-prefill-size", "-1"]
        if chunked.max_batched_tokens is not None:
            words += ["--max-prefill-tokens", str(chunked.max_batched_tokens)]
    elif chunked is not None and chunked.max_batched_tokens is not None:
        words += ["--chunked-prefill-size", str(chunked.max_batched_tokens)]
    if settings.max_sequences is not None:
        words += ["--max-running-requests", str(settings.max_sequences)]
    if settings.prefix_caching is False:
        # On is its default, and there is no flag that says so.
        words.append("--disable-radix-cache")
    if settings.speculative is not None:
        words += _speculative(settings.speculative)
    return words


def _speculative(speculative: Speculative) -> list[str]:
    words = ["--speculative-algorithm", _ALGORITHM[speculative.method]]
    if speculative.model is not None:
        words += ["--speculative-draft-model-path", speculative.model]
    if speculative.method == "ngram":
        return [*words, "--speculative-num-draft-tokens", str(speculative.tokens)]
    # A chain of guesses (top-k 1), which is what vLLM does; the token that verifies them counts as one of the draft.
    return [
        *words,
        "--speculative-num-steps", str(speculative.tokens),
        "--speculative-eagle-topk", "1",
        "--speculative-num-draft-tokens", str(speculative.tokens + 1),
    ]  # fmt: skip
