"""Condition types, condition reasons and event reasons: the whole vocabulary of "why".

Each reason carries the sentence of the troubleshooting table (docs/troubleshooting.md is generated from it).
A condition that does not apply is absent, never False.
"""

from enum import StrEnum


class Condition(StrEnum):
    """Types of `status.conditions`."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    PREFILL_READY = "PrefillReady"
    DECODE_READY = "DecodeReady"
    WORKERS_READY = "WorkersReady"
    ROUTER_READY = "RouterReady"
    KV_CACHE_FITS = "KVCacheFits"
    KV_LEAK_SUSPECTED = "KVLeakSuspected"
    SCHEMA_CURRENT = "SchemaCurrent"
    GATEWAY_READY = "GatewayReady"
    SETTINGS_SOUND = "SettingsSound"
    SCALING_ACTIVE = "ScalingActive"
    ABLE_TO_SCALE = "AbleToScale"
    SCALING_LIMITED = "ScalingLimited"
    SLO_MET = "SLOMet"


class Reason(StrEnum):
    """Reasons of conditions. The docstring-like text beside each is in `MEANING`."""

    # Ready, Progressing, <Role>Ready, RouterReady
    ALL_READY = "AllReady"
    STARTING = "Starting"
    SCALING = "Scaling"
    AWAITING_FLIP = "AwaitingFlip"
    DRAINING = "Draining"
    ROLLING_OUT = "RollingOut"
    UP_TO_DATE = "UpToDate"
    SCALED_TO_ZERO = "ScaledToZero"
    ROUTER_STARTING = "RouterStarting"
    # what a worker can suffer from, most telling first
    INVALID_SPEC = "InvalidSpec"
    NAME_CONFLICT = "NameConflict"
    SECRET_NOT_FOUND = "SecretNotFound"
    CONFIG_MAP_NOT_FOUND = "ConfigMapNotFound"
    VOLUME_CLAIM_NOT_FOUND = "VolumeClaimNotFound"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    # before those of a single pod that it explains
    MODE_CHANGE_BLOCKED = "ModeChangeBlocked"
    INSUFFICIENT_GPU = "InsufficientGPU"
    UNSCHEDULABLE = "Unschedulable"
    INSUFFICIENT_KV_CACHE = "InsufficientKVCache"
    MODEL_NOT_FOUND = "ModelNotFound"
    PREFLIGHT_REFUSED = "PreflightRefused"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASH_LOOP = "CrashLoop"
    CONTAINER_CONFIG_ERROR = "ContainerConfigError"
    NODE_LOST = "NodeLost"
    STUCK_TERMINATING = "StuckTerminating"
    POD_REFUSED = "PodRefused"
    # budget
    GPU_BUDGET_EXCEEDED = "GPUBudgetExceeded"
    GPU_COUNT_UNKNOWN = "GPUCountUnknown"
    # KVCacheFits
    FITS = "Fits"
    DOES_NOT_FIT = "DoesNotFit"
    # SettingsSound
    TOKEN_BUDGET_TOO_SMALL = "TokenBudgetTooSmall"
    VOLUME_NOT_SHARED = "VolumeNotShared"
    PARALLELISM_DIFFERS = "ParallelismDiffers"
    # KVLeakSuspected
    KV_NOT_RELEASED = "KVNotReleased"
    # SchemaCurrent
    SCHEMA_OUTDATED = "SchemaOutdated"
    # GatewayReady
    ROUTE_MADE = "RouteMade"
    ROUTE_REFUSED = "RouteRefused"
    POOL_REFUSED = "PoolRefused"
    POOL_WAITING = "PoolWaiting"
    # autoscaling: ScalingActive, AbleToScale, ScalingLimited, SLOMet
    METRICS_OK = "MetricsOK"
    NO_METRICS = "NoMetrics"
    NO_SERIES_MATCHED = "NoSeriesMatched"
    STALE_METRICS = "StaleMetrics"
    PROMETHEUS_UNREACHABLE = "PrometheusUnreachable"
    SCALING_PAUSED = "ScalingPaused"
    SCALING_EXTERNAL = "ScalingExternal"
    SCALING_OFF = "ScalingOff"
    RECOMMEND_ONLY = "RecommendOnly"
    READY_TO_SCALE = "ReadyToScale"
    SCALE_WRITE_FAILED = "ScaleWriteFailed"
    TOO_FEW_REPLICAS = "TooFewReplicas"
    TOO_MANY_REPLICAS = "TooManyReplicas"
    WITHIN_LIMITS = "WithinLimits"
    TTFT_INFEASIBLE = "TTFTInfeasible"
    TPOT_INFEASIBLE = "TPOTInfeasible"
    SLO_ATTAINED = "SLOAttained"
    SLO_MISSED = "SLOMissed"
    NO_TRAFFIC = "NoTraffic"
    WAITING_FOR_DATA = "WaitingForData"


class EventReason(StrEnum):
    """Reasons of Events: decisions and faults only, never progress."""

    WORKER_CREATED = "WorkerCreated"
    WORKER_DRAINING = "WorkerDraining"
    WORKER_UNDRAINED = "WorkerUndrained"
    WORKER_DELETED = "WorkerDeleted"
    WORKER_REPLACED = "WorkerReplaced"
    ROLE_FLIPPED = "RoleFlipped"
    SCALED_UP = "ScaledUp"
    SCALED_DOWN = "ScaledDown"
    SCALE_RECOMMENDED = "ScaleRecommended"
    SCALE_BLOCKED = "ScaleBlocked"
    INVALID_SPEC = "InvalidSpec"
    NAME_CONFLICT = "NameConflict"
    WORKER_FAILING = "WorkerFailing"
    SCHEMA_OUTDATED = "SchemaOutdated"


# reason -> (what it means, what to do)
MEANING: dict[Reason, tuple[str, str]] = {
    Reason.ALL_READY: ("Everything that was asked for serves.", "Nothing."),
    Reason.STARTING: ("Workers are starting: scheduling, pulling, loading weights.", "Wait; see the pods."),
    Reason.SCALING: ("The number of workers is changing.", "Nothing; the events say why."),
    Reason.AWAITING_FLIP: (
        "A worker that another role let go will serve in this one as soon as its requests have ended; no pod is made.",
        "Nothing; a new worker is started if that takes too long and a GPU is free.",
    ),
    Reason.DRAINING: ("A worker has left the router and finishes its open requests.", "Nothing."),
    Reason.ROLLING_OUT: ("Workers of an older template are being replaced one at a time.", "Nothing."),
    Reason.UP_TO_DATE: ("All workers have the current template.", "Nothing."),
    Reason.SCALED_TO_ZERO: ("The role has no workers, as asked.", "Raise its replicas to serve."),
    Reason.ROUTER_STARTING: ("The router is not ready yet.", "See its Deployment and pods."),
    Reason.INVALID_SPEC: (
        "The spec cannot be carried out; the message says which part.",
        "Correct the manifest.",
    ),
    Reason.NAME_CONFLICT: (
        "An object of that name exists and is not this service's; Tandem does not touch it.",
        "Delete or rename that object, or rename the service.",
    ),
    Reason.SECRET_NOT_FOUND: (
        "A Secret that the worker needs does not exist.",
        "Create the Secret; it is picked up.",
    ),
    Reason.CONFIG_MAP_NOT_FOUND: ("A ConfigMap that the worker needs does not exist.", "Create it."),
    Reason.VOLUME_CLAIM_NOT_FOUND: (
        "A PersistentVolumeClaim does not exist.",
        "Create it in this namespace.",
    ),
    Reason.IMAGE_PULL_FAILED: (
        "The image cannot be pulled; the message has the registry's answer.",
        "Correct the image or its pull secret.",
    ),
    Reason.MODE_CHANGE_BLOCKED: (
        "The new mode's workers find no room while the old mode's last ones go on serving; nothing is stopped.",
        "Free GPUs or raise gpuBudget; or delete the workers that the message names, and accept a gap.",
    ),
    Reason.INSUFFICIENT_GPU: ("No node has the GPUs that a worker asks for.", "Add nodes or lower replicas."),
    Reason.UNSCHEDULABLE: (
        "No node fits the worker; the message is the scheduler's.",
        "Check selectors, taints and requests.",
    ),
    Reason.INSUFFICIENT_KV_CACHE: (
        "Weights leave no room for the KV cache of one sequence.",
        "Lower maxModelLen, quantise, or use more GPUs.",
    ),
    Reason.MODEL_NOT_FOUND: ("The worker cannot find the model.", "Correct model.uri, or the token Secret."),
    Reason.PREFLIGHT_REFUSED: (
        "The worker's preflight refused to start; the message says why.",
        "As the message says.",
    ),
    Reason.OUT_OF_MEMORY: (
        "The container was killed for memory.",
        "Raise the memory limit or lower the batch.",
    ),
    Reason.CRASH_LOOP: (
        "The engine exits again and again; the message has its last words.",
        "Read the pod's log.",
    ),
    Reason.CONTAINER_CONFIG_ERROR: ("The container cannot be configured.", "As the message says."),
    Reason.NODE_LOST: (
        "The node of a worker does not answer.",
        "Check the node; the worker is replaced when it is gone.",
    ),
    Reason.STUCK_TERMINATING: (
        "A worker does not end after its grace period; its GPU counts as used.",
        "Check the node.",
    ),
    Reason.POD_REFUSED: (
        "The API server refused the worker pod; the message is its answer.",
        "Check quota, policy and the template.",
    ),
    Reason.GPU_BUDGET_EXCEEDED: (
        "The replicas asked for need more GPUs than gpuBudget.",
        "Raise the budget or lower the replicas.",
    ),
    Reason.GPU_COUNT_UNKNOWN: (
        "The GPUs of a worker cannot be told, so nothing grows.",
        "Set the role's gpus.",
    ),
    Reason.FITS: ("Weights and KV cache fit the GPU.", "Nothing."),
    Reason.DOES_NOT_FIT: ("Weights and KV cache do not fit the GPU.", "Follow the message's arithmetic."),
    Reason.TOKEN_BUDGET_TOO_SMALL: (
        "With chunked prefill off, a prompt of the model's full length does not fit the token budget of one step.",
        "Set engine.maxModelLen, raise the budget, or switch chunked prefill on.",
    ),
    Reason.VOLUME_NOT_SHARED: (
        "The model's volume can be mounted on one node only, and there may be several workers.",
        "Use a ReadOnlyMany or ReadWriteMany claim.",
    ),
    Reason.PARALLELISM_DIFFERS: (
        "Prefill and decode have different tensor-parallel sizes, which this engine's KV transfer does not bear well.",
        "Give both roles the same gpus and tensorParallel.",
    ),
    Reason.KV_NOT_RELEASED: (
        "KV cache is held on a worker for 10 minutes with nothing running: a hand-over was broken off and never freed.",
        "Delete the worker that the message names; it is replaced. More workers do not help.",
    ),
    Reason.SCHEMA_OUTDATED: (
        "The CRDs in the cluster are older than the operator; fields that they lack are dropped in silence.",
        "Apply the chart's CRDs (helm upgrade does, unless crds.install is false).",
    ),
    Reason.ROUTE_MADE: (
        "An HTTPRoute leads to the router, or to the InferencePool where one is asked for.",
        "Nothing; see the HTTPRoute's status for the gateway.",
    ),
    Reason.ROUTE_REFUSED: (
        "The HTTPRoute cannot be made; the service serves inside the cluster all the same.",
        "Read the message: install the Gateway API, or correct router.gateway.",
    ),
    Reason.POOL_REFUSED: (
        "The InferencePool cannot be made; the HTTPRoute leads to the router instead.",
        "Read the message: install the Gateway API Inference Extension, or correct router.gateway.inferencePool.",
    ),
    Reason.POOL_WAITING: (
        "The InferencePool is there, and the HTTPRoute leads to the router until workers and endpoint picker serve.",
        "Read the message; where it names the picker's Service, see that its pods run and are Ready.",
    ),
    Reason.METRICS_OK: ("Fresh metrics from the workers.", "Nothing."),
    Reason.NO_METRICS: ("No worker answered the scrape.", "Check the workers and the NetworkPolicy."),
    Reason.NO_SERIES_MATCHED: (
        "Workers answer, but none of the expected series is there.",
        "Check the engine's version and served name.",
    ),
    Reason.STALE_METRICS: ("Metrics are too old; nothing is scaled down.", "Check Prometheus or the scrape."),
    Reason.PROMETHEUS_UNREACHABLE: (
        "Prometheus does not answer; the message has the address.",
        "Correct prometheus.url.",
    ),
    Reason.SCALING_PAUSED: ("Paused by annotation.", "Remove the annotation."),
    Reason.SCALING_EXTERNAL: ("An HPA, KEDA or a person owns the pools.", "Nothing."),
    Reason.SCALING_OFF: ("Replicas are fixed in the spec.", "Nothing."),
    Reason.RECOMMEND_ONLY: ("Decisions are written to status only.", "Set autoscaling.mode: Auto to act."),
    Reason.READY_TO_SCALE: ("The pools can be written.", "Nothing."),
    Reason.SCALE_WRITE_FAILED: (
        "Writing a pool's scale failed; the message has the answer.",
        "Check RBAC and the API server.",
    ),
    Reason.TOO_FEW_REPLICAS: (
        "More replicas are needed than maxReplicas or the budget allow.",
        "Raise the limit.",
    ),
    Reason.TOO_MANY_REPLICAS: (
        "Fewer replicas would do than minReplicas allows.",
        "Lower minReplicas if you like.",
    ),
    Reason.WITHIN_LIMITS: ("The need lies within the limits.", "Nothing."),
    Reason.TTFT_INFEASIBLE: (
        "The TTFT target is shorter than one prompt's own prefill; replicas cannot help.",
        "Relax slo.ttft, shorten prompts, or use a faster GPU.",
    ),
    Reason.TPOT_INFEASIBLE: (
        "The TPOT target is below a single decode step; replicas cannot help.",
        "Relax slo.tpot, quantise, or use more bandwidth.",
    ),
    Reason.SLO_ATTAINED: ("The measured tail is within the targets.", "Nothing."),
    Reason.SLO_MISSED: (
        "The measured tail is above a target; the message says which.",
        "See the scaling decision.",
    ),
    Reason.NO_TRAFFIC: ("No request in the window.", "Nothing."),
    Reason.WAITING_FOR_DATA: ("Not enough measured yet.", "Wait."),
}
