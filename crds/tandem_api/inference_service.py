"""`InferenceService`: what a user writes and what Tandem answers, as pydantic models.

The models are the only source of the CRD: `tandem_api.crd` turns them into YAML. Rules that the API server
must enforce are CEL, written beside the field they guard (`_rules`).
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tandem_api import names
from tandem_api.durations import Duration, parse_seconds

Mode = Literal["Colocated", "Disaggregated"]
ScalingMode = Literal["Auto", "Recommend", "External", "Off"]

# Flags that the operator renders itself. A user's copy would silently win or lose, so it is refused.
OWNED_FLAGS = (
    "model", "served-model-name", "host", "port", "kv-transfer-config", "max-model-len", "quantization",
    "kv-cache-dtype", "max-num-seqs", "max-num-batched-tokens", "long-prefill-token-threshold",
    "enable-chunked-prefill", "no-enable-chunked-prefill", "enable-prefix-caching",
    "no-enable-prefix-caching", "tensor-parallel-size", "middleware", "shutdown-timeout",
    "late-demotion", "pipeline-parallel-size", "nnodes", "node-rank", "master-addr", "master-port", "headless",
    "block-size", "revision", "speculative-config", "engine",
)  # fmt: skip
# The engine's short words for some of them.
OWNED_SHORT_FLAGS = ("tp", "pp", "n", "r", "q")
# The same of SGLang, where it has other words (`sglang.srt.arg_groups.fields` of 0.5.23).
SGLANG_OWNED_FLAGS = (
    "model-path", "context-length", "chunked-prefill-size", "max-prefill-tokens", "max-running-requests",
    "mem-fraction-static", "page-size", "disable-radix-cache", "tp-size", "pp-size", "dp-size", "data-parallel-size",
    "dist-init-addr", "nccl-init-addr", "enable-metrics", "disaggregation-mode", "disaggregation-transfer-backend",
    "disaggregation-bootstrap-port", "enable-pd-role-switch", "speculative-algorithm", "speculative-draft-model-path",
    "speculative-draft-model", "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens",
)  # fmt: skip
# argparse takes `_` for `-`, so both spellings are refused.
_OWNED_PATTERN = (
    "^(--(" + "|".join(flag.replace("-", "[-_]") for flag in OWNED_FLAGS) + ")"
    "|-(" + "|".join(OWNED_SHORT_FLAGS) + "))(=.*)?$"
)  # fmt: skip


def _rules(*rules: tuple[str, str]) -> dict[str, Any]:
    """CEL rules for the schema, as (expression that must hold, sentence for the user)."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


class Wire(BaseModel):
    """Base of everything that travels: camelCase outside, snake_case inside, unknown fields refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    def to_wire(self) -> dict[str, Any]:
        """The object as the API server stores it; fields that are None are left out."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


PartialPodTemplate = Annotated[
    dict[str, Any],
    Field(
        description="Partial pod template, merged over the generated one; the engine's container is `engine`.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    ),
]


class ModelSource(Wire):
    """Where the model comes from and under which name it is served."""

    uri: str = Field(
        description="hf://organisation/model, pvc://claim/path, or path:///directory/in/the/image.",
        min_length=1,
        max_length=512,
        json_schema_extra=_rules(
            (
                "self.matches('^hf://[^/]+/[^/]+$') || self.matches('^pvc://[^/]+/.+$')"
                " || self.matches('^path:///.+$')",
                "model.uri must be hf://organisation/model, pvc://claim/path or path:///directory",
            )
        ),
    )
    name: str | None = Field(
        default=None,
        max_length=253,
        description="The `model` of OpenAI requests. Default: the name of the InferenceService.",
    )
    revision: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Branch, tag or commit of a Hugging Face model; one for all workers, so that all have the same "
        "weights.",
    )
    token_secret: str | None = Field(
        default=None, max_length=253, description="Secret whose key `token` is the Hugging Face token."
    )

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                "!has(self.revision) || self.uri.startsWith('hf://')",
                "model.revision is of a Hugging Face model; a pvc:// or path:// directory is what it is",
            )
        )
    )


class ChunkedPrefill(Wire):
    """How prompts are cut into pieces so that decode steps are not held up."""

    enabled: bool = Field(default=True, description="Off: a prompt is computed in one step.")
    max_batched_tokens: int | None = Field(default=None, ge=16, description="Token budget of one step.")
    long_prompt_threshold: int | None = Field(
        default=None,
        ge=0,
        description="Most tokens of one prompt in one step: leaves room for short prompts behind a long one.",
    )

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                "!has(self.longPromptThreshold) || !has(self.maxBatchedTokens)"
                " || self.longPromptThreshold <= self.maxBatchedTokens",
                "chunkedPrefill.longPromptThreshold must not exceed chunkedPrefill.maxBatchedTokens",
            )
        )
    )


class Speculative(Wire):
    """Tokens guessed ahead and checked together: fewer steps per token where the guesses are good."""

    method: Literal["ngram", "eagle", "eagle3", "mtp", "draft"] = Field(
        description="ngram: out of the prompt, no further weights. eagle, eagle3: a head trained for the model. mtp: "
        "the model's own. draft: a small model."
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="The head or the small model: an id or a directory.",
    )
    tokens: int = Field(default=3, ge=1, le=32, description="Guessed tokens per step.")

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                "has(self.model) == (self.method in ['eagle', 'eagle3', 'draft'])",
                "speculative.model is needed by the methods eagle, eagle3 and draft, and by no other",
            )
        )
    )


class EngineTuning(Wire):
    """Engine settings that a role may override."""

    chunked_prefill: ChunkedPrefill | None = None
    max_sequences: int | None = Field(default=None, ge=1, description="Most sequences in one batch.")
    quantization: Literal["none", "fp8", "awq", "gptq"] | None = Field(
        default=None, description="How the weights are stored. Default: what the model's own config says."
    )
    prefix_caching: bool | None = Field(
        default=None, description="Keep the KV cache of common beginnings of prompts. Default: the engine's."
    )
    gpu_memory_percent: int | None = Field(
        default=None,
        ge=1,
        le=99,
        description="Share of each GPU's memory that the engine takes for weights and KV cache; vLLM counts "
        "activations to it (--gpu-memory-utilization), SGLang does not (--mem-fraction-static).",
    )
    speculative: Speculative | None = Field(
        default=None, description="Speculative decoding; prefill and decode must agree unless it is ngram."
    )
    extra_args: list[Annotated[str, Field(max_length=1024)]] | None = Field(
        default=None,
        max_length=64,
        description="Further engine flags, passed through as they are.",
        json_schema_extra=_rules(
            (
                f"self.all(a, !a.matches('{_OWNED_PATTERN}'))",
                "engine.extraArgs contains a flag that Tandem sets itself (model, served-model-name, host, "
                "port, kv-transfer-config, middleware, shutdown-timeout, tensor-parallel-size and what else says "
                "how the engine is spread over GPUs and nodes, or one that has a field of its own in spec.engine); "
                "use that field instead",
            )
        ),
    )


# The default of the whole, {}, is checked before the defaults inside it are filled in.
_NOT_SGLANG = "!has(self.type) || self.type != 'sglang'"


class Engine(EngineTuning):
    """The engine. What prefill and decode must agree on stands only here, so that they cannot disagree."""

    type: Literal["vllm", "sglang"] = Field(default="vllm", description="Which engine the workers run.")
    max_model_len: int | None = Field(default=None, ge=16, description="Prompt plus output, in tokens.")
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] = Field(
        default="auto",
        description="Type of the KV cache; fp8 holds twice as many tokens. auto: as the weights.",
    )
    block_size: int | None = Field(
        default=None,
        ge=1,
        le=512,
        description="Tokens per block of the KV cache (vLLM --block-size, SGLang --page-size).",
    )
    late_demotion: bool = Field(
        default=False,
        description="Prompts wait at the worker's gate and enter the engine one behind the other; one that cannot meet "
        "slo.ttft any more, or makes others miss it, waits for those who can. Needs Tandem's worker image: a stock "
        "vLLM image refuses to start with it.",
    )
    startup_timeout: Duration = Field(
        default="30m", description="How long a worker may take from start to its first healthy answer."
    )

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                "!has(self.chunkedPrefill) || self.chunkedPrefill.enabled || !has(self.maxModelLen)"
                " || !has(self.chunkedPrefill.maxBatchedTokens)"
                " || self.chunkedPrefill.maxBatchedTokens >= self.maxModelLen",
                "with chunked prefill off, chunkedPrefill.maxBatchedTokens must be at least maxModelLen, "
                "because a prompt is then computed in one step",
            ),
            (
                f"{_NOT_SGLANG} || !has(self.lateDemotion) || !self.lateDemotion",
                "engine.lateDemotion is for engine.type vllm; remove it",
            ),
            (
                f"{_NOT_SGLANG} || !has(self.chunkedPrefill) || !has(self.chunkedPrefill.longPromptThreshold)",
                "SGLang has no chunkedPrefill.longPromptThreshold: set a smaller chunkedPrefill.maxBatchedTokens",
            ),
        )
    )


class SLO(Wire):
    """The two promises that users feel."""

    ttft: Duration = Field(description="Time to first token.")
    tpot: Duration = Field(description="Time per output token after the first.")
    percentile: int = Field(default=95, ge=50, le=99, description="Share of requests, in percent.")

    @property
    def ttft_seconds(self) -> float:
        return parse_seconds(self.ttft)

    @property
    def tpot_seconds(self) -> float:
        return parse_seconds(self.tpot)


class Role(Wire):
    """One pool of workers."""

    min_replicas: int = Field(default=1, ge=0, le=10000, description="Fewest workers; 0 lets the role sleep.")
    max_replicas: int = Field(default=1, ge=0, le=10000, description="Most workers.")
    replicas: int | None = Field(
        default=None, ge=0, le=10000, description="Only with autoscaling.mode Off: the fixed number."
    )
    gpus: int = Field(
        default=1,
        ge=0,
        le=64,
        description="GPUs of one worker, or of each of its pods with nodes above 1; 0 runs on the CPU.",
    )
    nodes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Pods of one worker, for a model that is larger than a node: created, drained, replaced and "
        "counted as one, each with `gpus` GPUs.",
    )
    pipeline_parallel: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Stages that the layers are cut into; every stage is cut by tensor parallelism over nodes x gpus / "
        "pipelineParallel GPUs. Default: one stage per node, so that only activations cross the network between nodes.",
    )
    tensor_parallel: int | None = Field(
        default=None,
        ge=1,
        le=512,
        description="GPUs that every layer is cut over. Default: all that pipelineParallel and dataParallel leave. "
        "Said without pipelineParallel, it means one stage.",
    )
    data_parallel: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Copies of the model in one worker, each on its own share of the GPUs; for experts mostly.",
    )
    shm_size: (
        Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$")] | None
    ) = Field(
        default=None,
        description="Most memory that /dev/shm may take, as a quantity. Default: the pod's own limit.",
    )
    gpu_resource: str = Field(
        default=names.GPU_RESOURCE,
        max_length=253,
        description="For MIG or AMD: nvidia.com/mig-3g.40gb, amd.com/gpu.",
    )
    engine: EngineTuning | None = Field(default=None, description="Overrides of spec.engine for this role.")
    template: PartialPodTemplate | None = None

    model_config = ConfigDict(
        json_schema_extra=_rules(
            ("self.minReplicas <= self.maxReplicas", "minReplicas must not exceed maxReplicas"),
            (
                "!has(self.pipelineParallel)"
                " || (self.nodes * (self.gpus > 0 ? self.gpus : 1)) % self.pipelineParallel == 0",
                "pipelineParallel must divide nodes x gpus, the number of GPUs that the worker has",
            ),
            (
                "(self.nodes * (self.gpus > 0 ? self.gpus : 1)) % self.dataParallel == 0",
                "dataParallel must divide nodes x gpus: each copy of the model takes an equal share of the GPUs",
            ),
            (
                "!has(self.tensorParallel) || self.tensorParallel * self.dataParallel"
                " * (has(self.pipelineParallel) ? self.pipelineParallel : 1)"
                " == self.nodes * (self.gpus > 0 ? self.gpus : 1)",
                "tensorParallel x pipelineParallel x dataParallel must be nodes x gpus, so that every GPU is used: "
                "tensorParallel 16 on nodes of 8 GPUs is nodes: 2, gpus: 8",
            ),
            (
                "self.dataParallel == 1 || self.nodes == 1",
                "dataParallel above 1 does not go with nodes above 1; let maxReplicas make the copies",
            ),
        )
    )

    @property
    def devices(self) -> int:
        """Devices of one worker, over all its pods; on the CPU each pod is one."""
        return self.nodes * max(1, self.gpus)

    @property
    def pipeline_size(self) -> int:
        """Stages of the pipeline."""
        if self.pipeline_parallel is not None:
            return self.pipeline_parallel
        return self.nodes if self.tensor_parallel is None else 1

    @property
    def tensor_size(self) -> int:
        """Devices per stage."""
        return self.devices // (self.pipeline_size * self.data_parallel)

    @property
    def total_gpus(self) -> int:
        """GPUs of one worker, over all its pods."""
        return self.nodes * self.gpus


class ScaleDown(Wire):
    """How slowly a pool shrinks."""

    confirm: Duration = Field(
        default="60s",
        description="The need must stay below the current size this long before it shrinks; prefill with late demotion "
        "half as long, because its queue makes up for a worker too few.",
    )


class Autoscaling(Wire):
    """Who sizes the pools and how boldly."""

    mode: ScalingMode = Field(
        default="Auto",
        description="Auto: Tandem writes the pools. Recommend: status only. External: an HPA, KEDA or a person "
        "owns the pools' scale. Off: `replicas` of each role.",
    )
    headroom_percent: int | None = Field(
        default=None,
        ge=0,
        le=400,
        description="Constant capacity above the measured demand, in percent. By default it is learnt from how the "
        "service's own demand has moved within a cold start.",
    )
    demand_percentile: int = Field(
        default=85,
        ge=50,
        le=99,
        description="How surely the demand until new workers serve is covered: more costs GPUs and saves misses. "
        "Without effect beside headroomPercent.",
    )
    priority: int = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Who is served first where the autoscaler shares a budget of GPUs among services.",
    )
    cold_start: Duration | None = Field(
        default=None, description="Prior for the time from decision to serving, until it is measured."
    )
    scale_down: ScaleDown = Field(default_factory=ScaleDown)


class ParentGateway(Wire):
    """A Gateway of the Gateway API."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Gateway.")
    namespace: str | None = Field(
        default=None, min_length=1, max_length=63, description="Its namespace, where it is not the service's."
    )
    section_name: str | None = Field(
        default=None, min_length=1, max_length=253, description="One listener of it. Default: all that fit."
    )


class EndpointPicker(Wire):
    """The endpoint picker that you run: for each request it tells the gateway which worker gets it."""

    name: str = Field(
        max_length=63,
        pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$",
        description="Name of its Service, in the service's namespace.",
    )
    port: int = Field(default=9002, ge=1, le=65535, description="Port of that Service.")
    failure_mode: Literal["FailOpen", "FailClose"] = Field(
        default="FailClose",
        description="While it does not answer, the gateway refuses requests (FailClose) or chooses workers itself "
        "(FailOpen).",
    )


class InferencePool(Wire):
    """An InferencePool of the workers; the HTTPRoute leads to it, and past the router. Mode Colocated only."""

    endpoint_picker: EndpointPicker


class Gateway(Wire):
    """The way in from outside: an HTTPRoute to the router, where the cluster has the Gateway API."""

    parents: list[ParentGateway] = Field(
        min_length=1, max_length=8, description="Gateways that the route belongs to."
    )
    hostnames: list[Annotated[str, Field(min_length=1, max_length=253)]] = Field(
        default_factory=list,
        max_length=16,
        description="Hosts that it answers for. Default: those of the Gateway.",
    )
    inference_pool: InferencePool | None = Field(
        default=None,
        description="Lead to an InferencePool of the workers, where the cluster has that kind (Gateway API Inference "
        "Extension). Default: to the router.",
    )


class Router(Wire):
    """The router in front of the workers."""

    replicas: int = Field(default=1, ge=0, le=100, description="Pods of the router.")
    policy: Literal["power_of_two", "cache_aware", "round_robin", "random", "consistent_hash"] = Field(
        default="power_of_two", description="How the router chooses a worker."
    )
    gateway: Gateway | None = Field(
        default=None,
        description="An HTTPRoute of the Gateway API that leads `/v1` to the router. Default: none.",
    )
    template: PartialPodTemplate | None = Field(
        default=None,
        description="Partial pod template, merged over the generated one; the router's container is `router`.",
    )


class Drain(Wire):
    """How a worker leaves."""

    deadline: Duration = Field(
        default="300s", description="Open requests may take this long before a drained worker is deleted."
    )


def _whole_prompt_rule(role: str) -> tuple[str, str]:
    """E4 for a role's own chunkedPrefill: its budget, or else the service's, must hold a prompt of full length."""
    own, base = f"self.{role}.engine.chunkedPrefill", "self.engine.chunkedPrefill"
    inherited = (
        f"(has({base}) && has({base}.maxBatchedTokens) ? {base}.maxBatchedTokens : self.engine.maxModelLen)"
    )
    return (
        f"!has(self.{role}) || !has(self.{role}.engine) || !has({own}) || {own}.enabled"
        " || !has(self.engine.maxModelLen)"
        f" || (has({own}.maxBatchedTokens) ? {own}.maxBatchedTokens : {inherited}) >= self.engine.maxModelLen",
        f"with chunked prefill off in {role}.engine, maxBatchedTokens must be at least engine.maxModelLen, because a "
        "prompt is then computed in one step",
    )


_NO_INFERENCE_POOL = "!has(self.router.gateway) || !has(self.router.gateway.inferencePool)"


class InferenceServiceSpec(Wire):
    """The wish. `mode` decides which pools exist."""

    mode: Mode = Field(
        default="Colocated",
        description="Colocated: one pool of workers does both phases. Disaggregated: prefill and decode have pools of "
        "their own, and KV moves between them.",
    )
    model: ModelSource
    engine: Engine = Field(default_factory=Engine)
    slo: SLO | None = None
    workers: Role | None = Field(default=None, description="Colocated: the one pool. Default: one worker.")
    prefill: Role | None = Field(
        default=None, description="Disaggregated: computes prompts; sized from TTFT."
    )
    decode: Role | None = Field(default=None, description="Disaggregated: produces tokens; sized from TPOT.")
    gpu_budget: int | None = Field(
        default=None, ge=0, description="GPUs that this service never exceeds, terminating workers included."
    )
    autoscaling: Autoscaling = Field(default_factory=Autoscaling)
    router: Router = Field(default_factory=Router)
    drain: Drain = Field(default_factory=Drain)

    model_config = ConfigDict(
        json_schema_extra=_rules(
            (
                "self.mode != 'Disaggregated' || (has(self.prefill) && has(self.decode))",
                "mode Disaggregated needs both spec.prefill and spec.decode",
            ),
            (
                "self.mode != 'Disaggregated' || !has(self.workers)",
                "mode Disaggregated has the pools spec.prefill and spec.decode; remove spec.workers",
            ),
            (
                "self.mode != 'Colocated' || (!has(self.prefill) && !has(self.decode))",
                "mode Colocated has the one pool spec.workers; remove spec.prefill and spec.decode, "
                "or set mode: Disaggregated",
            ),
            (
                "has(self.slo) || (self.autoscaling.mode != 'Auto' && self.autoscaling.mode != 'Recommend')",
                "autoscaling.mode Auto and Recommend size from targets: set spec.slo.ttft and spec.slo.tpot, "
                "or choose autoscaling.mode External or Off",
            ),
            (
                "self.autoscaling.mode == 'Off' || ((!has(self.workers) || !has(self.workers.replicas))"
                " && (!has(self.prefill) || !has(self.prefill.replicas))"
                " && (!has(self.decode) || !has(self.decode.replicas)))",
                "replicas is for autoscaling.mode Off; in the other modes set minReplicas and maxReplicas",
            ),
            *(
                (
                    f"!has(self.{role}) || (self.mode != 'Disaggregated' && !self.engine.lateDemotion) || "
                    f"(has(self.{role}.pipelineParallel) ? self.{role}.pipelineParallel : "
                    f"has(self.{role}.tensorParallel) ? 1 : self.{role}.nodes) == 1",
                    f"{role} is cut into pipeline stages, and neither the KV transfer of mode Disaggregated nor "
                    f"engine.lateDemotion works over stages: set {role}.pipelineParallel: 1 (tensor parallelism over "
                    "all nodes)",
                )
                for role in names.ROLES
            ),
            *(_whole_prompt_rule(role) for role in names.ROLES),
            *(
                (
                    f"self.engine.type != 'sglang' || !has(self.{role}) || (self.{role}.nodes == 1 && "
                    f"(!has(self.{role}.engine) || !has(self.{role}.engine.chunkedPrefill)"
                    f" || !has(self.{role}.engine.chunkedPrefill.longPromptThreshold)))",
                    f"{role}: engine.type sglang runs on one node per worker and has no "
                    "chunkedPrefill.longPromptThreshold; set nodes: 1 and a smaller maxBatchedTokens",
                )
                for role in names.ROLES
            ),
            (
                "self.engine.type != 'sglang' || self.mode != 'Disaggregated'"
                " || self.router.policy != 'consistent_hash'",
                "the router of a Disaggregated SGLang service has no policy consistent_hash; choose cache_aware, "
                "power_of_two, round_robin or random",
            ),
            (
                f"{_NO_INFERENCE_POOL} || self.mode == 'Colocated'",
                "router.gateway.inferencePool is for mode Colocated: only the router pairs prefill and decode workers",
            ),
            (
                f"{_NO_INFERENCE_POOL} || self.autoscaling.mode != 'Auto' || !has(self.workers)"
                " || self.workers.minReplicas > 0",
                "requests that come past the router wake no sleeping role: with router.gateway.inferencePool set "
                "workers.minReplicas to 1 or more",
            ),
        )
    )

    @property
    def inference_pool(self) -> InferencePool | None:
        """The InferencePool that is asked for; with one, requests reach the workers past the router."""
        return self.router.gateway.inference_pool if self.router.gateway else None

    def role_name(self, role: Role) -> str:
        """The name of one of `roles`."""
        if self.mode == "Colocated":
            return names.WORKERS
        return names.PREFILL if role is self.prefill else names.DECODE

    @property
    def roles(self) -> dict[str, Role]:
        """The pools that this mode has, by role name, prefill first."""
        if self.mode == "Colocated":
            return {names.WORKERS: self.workers or Role()}
        pools = {names.PREFILL: self.prefill, names.DECODE: self.decode}
        return {role: pool for role, pool in pools.items() if pool is not None}


# --- status -----------------------------------------------------------------------------------------------
class StatusCondition(Wire):
    """A metav1.Condition."""

    type: str = Field(description="Ready, PrefillReady, SLOMet, ...")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(description="One word; what to do about each stands in the troubleshooting table.")
    message: str = Field(default="", description="The details, for a person.")
    observed_generation: int | None = Field(
        default=None, description="metadata.generation of the spec that this was said of."
    )
    last_transition_time: Annotated[
        str, Field(description="When `status` last changed.", json_schema_extra={"format": "date-time"})
    ]


class RoleStatus(Wire):
    """Workers of one role, counted. `summary` is ready/desired, for `kubectl get`."""

    desired: int = Field(description="Workers that shall serve.")
    ready: int = Field(description="Workers that serve.")
    starting: int = Field(description="Workers that do not serve yet.")
    draining: int = Field(description="Workers that finish their requests and go.")
    updated: int = Field(description="Workers of the current template.")
    summary: str = Field(description="ready/desired.")


class GPUStatus(Wire):
    """GPUs that the workers hold, terminating ones included."""

    used: int = Field(description="GPUs held now.")
    budget: int | None = Field(default=None, description="spec.gpuBudget.")


class TargetStatus(Wire):
    """One promise: its target, the measured tail and the share of requests that met it. Absent: unknown."""

    target: str = Field(description="The target, from spec.slo.")
    measured: str | None = Field(default=None, description="The tail at slo.percentile.")
    attainment: str | None = Field(default=None, description="Share of the requests within the target.")


class SLOStatus(Wire):
    """Both promises, as measured by the autoscaler."""

    ttft: TargetStatus
    tpot: TargetStatus
    percentile: int = Field(description="spec.slo.percentile.")


class DecisionStatus(Wire):
    """A scaling decision and the numbers that explain it."""

    role: str = Field(description="prefill, decode or workers.")
    from_replicas: Annotated[int, Field(alias="from", description="Workers before.")]
    to: int = Field(description="Workers after.")
    reason: str = Field(description="The rule that decided, in one word.")
    message: str = Field(description="The decision in a sentence.")
    at: Annotated[str, Field(description="When.", json_schema_extra={"format": "date-time"})]
    numbers: dict[str, str] = Field(default_factory=dict, description="What the decision stands on.")


class AutoscalingStatus(Wire):
    """What the autoscaler decided last, and before."""

    mode: str = Field(description="spec.autoscaling.mode, as it was carried out.")
    roles: dict[str, DecisionStatus] = Field(default_factory=dict, description="The last decision per role.")
    history: list[DecisionStatus] = Field(
        default_factory=list, max_length=5, description="The last five changes, newest first."
    )


class InferenceServiceStatus(Wire):
    """What Tandem answers. Written when something changed, never as a heartbeat."""

    observed_generation: int | None = Field(
        default=None, description="metadata.generation that the operator has acted on."
    )
    url: str | None = Field(default=None, description="The OpenAI endpoint inside the cluster.")
    summary: str | None = Field(default=None, description="Ready/desired over all roles.")
    roles: dict[str, RoleStatus] = Field(default_factory=dict, description="Workers, by role.")
    router: str | None = Field(default=None, description="Ready/desired router replicas.")
    gpus: GPUStatus | None = None
    slo: SLOStatus | None = None
    autoscaling: AutoscalingStatus | None = None
    conditions: list[StatusCondition] = Field(
        default_factory=list,
        description="Why; those that do not apply are absent.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
