"""Every name that two parts of Tandem, or Tandem and its users, must agree on.

Reasons and condition types live in `tandem_api.reasons`.
"""

from typing import Final

GROUP: Final = "tandem.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

INFERENCE_SERVICE: Final = "InferenceService"
INFERENCE_SERVICES: Final = "inferenceservices"
WORKER_POOL: Final = "WorkerPool"
WORKER_POOLS: Final = "workerpools"

# --- roles and components ---------------------------------------------------------------------------------
PREFILL: Final = "prefill"
DECODE: Final = "decode"
WORKERS: Final = "workers"  # the single pool of a Colocated service
ROLES: Final = (PREFILL, DECODE, WORKERS)
COMPONENT_WORKER: Final = "worker"
# A pod of a worker that runs on several nodes, other than its leader: it has no HTTP server, and no selector of workers
# finds it.
COMPONENT_FOLLOWER: Final = "follower"
COMPONENT_ROUTER: Final = "router"

# --- labels -----------------------------------------------------------------------------------------------
LABEL_SERVICE: Final = f"{GROUP}/service"
LABEL_ROLE: Final = f"{GROUP}/role"
LABEL_COMPONENT: Final = f"{GROUP}/component"
# "true" while the router may send work to this pod. Removing it is the first phase of a drain.
LABEL_SERVING: Final = f"{GROUP}/serving"
LABEL_TEMPLATE_HASH: Final = f"{GROUP}/template-hash"
# Only on the pods of a worker that runs on several nodes: the name of its leader, and the place among them from 0.
LABEL_GROUP: Final = f"{GROUP}/group"
LABEL_RANK: Final = f"{GROUP}/rank"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_PART_OF: Final = "app.kubernetes.io/part-of"
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
MANAGED_BY: Final = "tandem"
# What the operator's informers select server-side.
MANAGED_SELECTOR: Final = f"{LABEL_MANAGED_BY}={MANAGED_BY}"

# --- annotations ------------------------------------------------------------------------------------------
ANNOTATION_DRAIN_STARTED: Final = f"{GROUP}/drain-started"  # RFC 3339; the deadline counts from it
ANNOTATION_DRAIN_REASON: Final = f"{GROUP}/drain-reason"
# "true" when only the number of workers was too high: such a worker may be taken back while it drains.
ANNOTATION_DRAIN_REVERSIBLE: Final = f"{GROUP}/drain-reversible"
# RFC 3339; a worker that changed its role rests in the new one
ANNOTATION_FLIPPED_AT: Final = f"{GROUP}/flipped-at"
ANNOTATION_NODES: Final = f"{GROUP}/nodes"  # pods of the group, as it was made
# On a leader, once all ranks have served together: how often each rank's engine had restarted until then ("0,1"). One
# that restarts later is lost to the others.
ANNOTATION_JOINED: Final = f"{GROUP}/joined"
ANNOTATION_ATTEMPT: Final = f"{GROUP}/attempt"  # how many workers failed in a row where this one was made
# RFC 3339; when the worker was last shown to the routers anew
ANNOTATION_RELISTED_AT: Final = f"{GROUP}/relisted-at"
ANNOTATION_TTFT_TARGET: Final = f"{GROUP}/ttft-target-seconds"  # read by the worker's gate
ANNOTATION_TPOT_TARGET: Final = f"{GROUP}/tpot-target-seconds"
ANNOTATION_PAUSED: Final = f"{GROUP}/paused"  # on the InferenceService: the autoscaler decides nothing
ANNOTATION_MANIFEST_HASH: Final = f"{GROUP}/manifest-hash"  # of a child as we last applied it

# --- field managers: one per writer -----------------------------------------------------------------------
FIELD_MANAGER_OPERATOR: Final = "tandem-operator"
FIELD_MANAGER_AUTOSCALER: Final = "tandem-autoscaler"

# --- the worker pod ---------------------------------------------------------------------------------------
ENGINE_CONTAINER: Final = "engine"
ENGINE_PORT: Final = 8000
ENGINE_PORT_NAME: Final = "http"
NIXL_SIDE_CHANNEL_PORT: Final = 5600
MASTER_PORT: Final = 29501  # of the leader of a group: where the other ranks meet it
PODINFO_PATH: Final = "/etc/tandem/podinfo"  # downward API: the pod's annotations
GPU_RESOURCE: Final = "nvidia.com/gpu"

# --- the router -------------------------------------------------------------------------------------------
ROUTER_PORT: Final = 8080
ROUTER_METRICS_PORT: Final = 29000
ROUTER_CONTAINER: Final = "router"

OPERATOR_LEASE: Final = "tandem-operator"
AUTOSCALER_LEASE: Final = "tandem-autoscaler"


def pool_name(service: str, role: str) -> str:
    """Name of the WorkerPool of one role: ``<service>-<role>``."""
    return f"{service}-{role}"


def worker_name(service: str, ordinal: int) -> str:
    """Deterministic name of a worker pod: ``<service>-<ordinal>``.

    The role is no part of it, because a role flip relabels the same pod.
    """
    return f"{service}-{ordinal}"


def follower_name(leader: str, rank: int) -> str:
    """Name of the pod of `rank` (1 and up) in the group of that leader: ``<service>-<ordinal>-r<rank>``.

    The letter keeps it apart from the first pod of another service that is called ``<service>-<ordinal>``.
    """
    return f"{leader}-r{rank}"


def leaders_name(service: str) -> str:
    """Name of the headless Service that gives the leaders of groups a name in DNS."""
    return f"{service}-leaders"


def router_name(service: str) -> str:
    """Name of the router's Deployment, Service, ServiceAccount, Role and RoleBinding."""
    return f"{service}-router"


def worker_labels(service: str, role: str) -> dict[str, str]:
    """The labels by which a role's worker pods are selected (scale selector, router, budget)."""
    return {LABEL_SERVICE: service, LABEL_ROLE: role, LABEL_COMPONENT: COMPONENT_WORKER}


def managed_labels(service: str, component: str) -> dict[str, str]:
    """The labels that every object of a service carries."""
    return {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_PART_OF: "tandem",
        LABEL_NAME: "tandem",
        LABEL_INSTANCE: service,
        LABEL_APP_COMPONENT: component,
        LABEL_SERVICE: service,
        LABEL_COMPONENT: component,
    }


def selector(labels: dict[str, str]) -> str:
    """Labels as a selector string, in a stable order."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
