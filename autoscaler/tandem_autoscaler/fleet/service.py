"""The fleet as values: what the autoscaler knows about each service before it measures anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_api import names
from tandem_autoscaler.model.mixed_step import Chunking

Key = tuple[str, str]
"""(namespace, name) of an InferenceService."""


@dataclass(frozen=True)
class Pod:
    """One worker or router pod.

    Times are seconds since the epoch by the API server's clock; they are compared with ours only where an
    error of a minute does no harm, and an age is never taken to be negative.
    """

    namespace: str
    name: str
    uid: str
    ip: str | None
    role: str  # of names.ROLES, or names.COMPONENT_ROUTER, or (until fleet/group.py) names.COMPONENT_FOLLOWER
    ready: bool
    created_at_seconds: float
    ready_since_seconds: float | None = None
    template: str = ""  # what it was made from; workers of one template may change their role
    draining: bool = False  # has left the router, or is terminating: no capacity, but its GPUs are taken
    stuck: bool = False  # cannot start as things are: unschedulable, image not found, crash loop
    group: str = ""  # name of the leader, where the worker runs on several nodes (fleet/group.py)

    @property
    def starting(self) -> bool:
        return not self.ready and not self.draining


@dataclass(frozen=True)
class Pool:
    """One role's pool: the target as it stands in the WorkerPool, and its limits."""

    role: str
    replicas: int
    minimum: int
    maximum: int
    gpus: int = 1  # of one worker, over all its nodes
    max_sequences: int | None = None
    chunking: Chunking | None = None  # of an engine that computes prompts and answers in the same steps


@dataclass(frozen=True)
class Targets:
    """The promises. `quantile` is 0.95 for a p95 target."""

    ttft_seconds: float
    tpot_seconds: float
    quantile: float = 0.95

    @property
    def allowance(self) -> float:
        """Share of requests that may miss the target."""
        return 1.0 - self.quantile


@dataclass(frozen=True)
class Service:
    """One InferenceService with the pools that exist and the pods that run."""

    namespace: str
    name: str
    uid: str
    generation: int
    mode: str  # tandem_api.inference_service.ScalingMode
    paused: bool
    disaggregated: bool
    targets: Targets | None
    pools: Mapping[str, Pool]
    pods: tuple[Pod, ...] = ()
    routers: tuple[Pod, ...] = ()
    gpu_budget: int | None = None
    priority: int = 0  # among the services that share a fleet's GPUs
    # Constant capacity above the measured demand; None: learnt from how the demand has moved (decide/demand.py).
    headroom: float | None = None
    demand_quantile: float = 0.8  # of the highest demand until new workers serve; used without `headroom`
    confirm_seconds: float = 60.0
    cold_start_seconds: float | None = None
    late_demotion: bool = False  # prompts that would be late yield to those that can still be on time
    router_policy: str = "power_of_two"
    # By an InferencePool: what the router counts is no count of the requests.
    past_the_router: bool = False
    # SGLang: the decode worker has a request from its arrival on, so its first token is the user's.
    first_token_at_decode: bool = False
    flips: bool = (
        False  # prefill and decode workers are made from the same template, so one may become the other
    )
    status: Mapping[str, object] = field(default_factory=dict)  # as the API server has it, for restarts

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    def workers(self, role: str) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.role == role)

    @property
    def sizes_itself(self) -> bool:
        """True when decisions are made here at all."""
        return self.mode in ("Auto", "Recommend") and not self.paused and self.targets is not None


def prefill_role(service: Service) -> str:
    """The role whose pods compute prompts."""
    return names.PREFILL if service.disaggregated else names.WORKERS


def decode_role(service: Service) -> str:
    """The role whose pods produce tokens."""
    return names.DECODE if service.disaggregated else names.WORKERS
