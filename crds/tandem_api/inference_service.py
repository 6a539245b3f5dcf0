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
)  # fmt: skip
# The engine's short words for some of them.
OWNED_SHORT_FLAGS = ("tp", "pp", "n", "r")
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
    token_secret: str | None = Field(
        default=None, max_length=253, description="Secret whose key `token` is the Hugging Face token."
    )


class ChunkedPrefill(Wire):
    """How prompts are cut into pieces so that decode steps are not held up."""

    enabled: bool = True
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


class EngineTuning(Wire):
    """Engine settings that a role may override."""

    chunked_prefill: ChunkedPrefill | None = None
    max_sequences: int | None = Field(default=None, ge=1, description="Most sequences in one batch.")
    quantization: Literal["none", "fp8", "awq", "gptq"] | None = None
    prefix_caching: bool | None = None
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


class Engine(EngineTuning):
    """The engine. What prefill and decode must agree on stands only here, so that they cannot disagree."""

    type: Literal["vllm", "sglang"] = "vllm"
    max_model_len: int | None = Field(default=None, ge=16, description="Prompt plus output, in tokens.")
    kv_cache_dtype: Literal["auto", "bf16", "fp8"] = "auto"
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
            )
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

    min_replicas: int = Field(default=1, ge=0, le=10000)
    max_replicas: int = Field(default=1, ge=0, le=10000)
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
        )
    )

    @property
    def pipeline_size(self) -> int:
        """Stages of the pipeline."""
        return self.nodes if self.pipeline_parallel is None else self.pipeline_parallel

    @property
    def tensor_size(self) -> int:
        """Devices per stage; on the CPU each pod is one."""
        return self.nodes * max(1, self.gpus) // self.pipeline_size

    @property
    def total_gpus(self) -> int:
        """GPUs of one worker, over all its pods."""
        return self.nodes * self.gpus


class ScaleDown(Wire):
    confirm: Duration = Field(
        default="60s", description="The need must stay below the current size this long before it shrinks."
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


class Router(Wire):
    replicas: int = Field(default=1, ge=0, le=100)
    policy: Literal["power_of_two", "cache_aware", "round_robin", "random", "consistent_hash"] = (
        "power_of_two"
    )
    template: PartialPodTemplate | None = None


class Drain(Wire):
    deadline: Duration = Field(
        default="300s", description="Open requests may take this long before a drained worker is deleted."
    )


class InferenceServiceSpec(Wire):
    """The wish. `mode` decides which pools exist."""

    mode: Mode = "Colocated"
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
                    f"(has(self.{role}.pipelineParallel) ? self.{role}.pipelineParallel : self.{role}.nodes) == 1",
                    f"{role} is cut into pipeline stages, and neither the KV transfer of mode Disaggregated nor "
                    f"engine.lateDemotion works over stages: set {role}.pipelineParallel: 1 (tensor parallelism over "
                    "all nodes)",
                )
                for role in names.ROLES
            ),
        )
    )

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

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    observed_generation: int | None = None
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class RoleStatus(Wire):
    """Workers of one role, counted. `summary` is ready/desired, for `kubectl get`."""

    desired: int
    ready: int
    starting: int
    draining: int
    updated: int
    summary: str


class GPUStatus(Wire):
    used: int
    budget: int | None = None


class TargetStatus(Wire):
    """One promise: its target, the measured tail and the share of requests that met it. Absent: unknown."""

    target: str
    measured: str | None = None
    attainment: str | None = None


class SLOStatus(Wire):
    ttft: TargetStatus
    tpot: TargetStatus
    percentile: int


class DecisionStatus(Wire):
    """A scaling decision and the numbers that explain it."""

    role: str
    from_replicas: Annotated[int, Field(alias="from")]
    to: int
    reason: str
    message: str
    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    numbers: dict[str, str] = Field(default_factory=dict)


class AutoscalingStatus(Wire):
    mode: str
    roles: dict[str, DecisionStatus] = Field(default_factory=dict, description="The last decision per role.")
    history: list[DecisionStatus] = Field(
        default_factory=list, max_length=5, description="The last five changes, newest first."
    )


class InferenceServiceStatus(Wire):
    observed_generation: int | None = None
    url: str | None = None
    summary: str | None = Field(default=None, description="Ready/desired over all roles.")
    roles: dict[str, RoleStatus] = Field(default_factory=dict)
    router: str | None = Field(default=None, description="Ready/desired router replicas.")
    gpus: GPUStatus | None = None
    slo: SLOStatus | None = None
    autoscaling: AutoscalingStatus | None = None
    conditions: list[StatusCondition] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
