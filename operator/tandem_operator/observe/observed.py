"""`Observed`: everything that a plan may depend on, frozen. Times are Unix seconds; unknown is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.kubernetes.cluster import Kind, Manifest
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.routing import Routing

# A child object: (plural of its kind, name). The namespace is the service's.
ChildKey = tuple[str, str]


@dataclass(frozen=True)
class Quiet:
    """How quiet one worker is, from successive readings of its /metrics.

    `idle_since`: the first of an unbroken run of readings that were all zero; a busy or a failed reading
    breaks the run. For a draining worker only readings after the router let go of it count.
    """

    read_at: float | None = None
    in_flight: float | None = None
    kv_usage: float | None = None
    idle_since: float | None = None
    last_busy: float | None = None
    # Since when much of the KV cache has been held while nothing ran, at each reading that there was.
    stranded_since: float | None = None


@dataclass(frozen=True)
class PoolView:
    """A WorkerPool as it lives: `replicas` is the target that its owner wrote."""

    name: str
    role: str
    replicas: int
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """The API server refused a write of ours. `object` is ``plural/name``, or ``role:pod`` for a worker; the message is
    the server's own sentence."""

    object: str
    message: str


@dataclass(frozen=True)
class Observed:
    """One service at one moment."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: InferenceServiceSpec | None
    # Why the spec cannot be carried out, as a sentence for the user; None when it can.
    spec_error: str | None = None
    deleting: bool = False
    pods: tuple[PodView, ...] = ()
    router_pods: tuple[PodView, ...] = ()
    # Pod names that are taken by pods that are not this service's.
    taken_names: frozenset[str] = frozenset()
    # Names of pods whose creation had no answer: each may be there, or not.
    unanswered: frozenset[str] = frozenset()
    # GPUs held by pods of an earlier service of this name that are still ending.
    leftover_gpus: int | None = 0
    pools: Mapping[str, PoolView] = field(default_factory=dict)
    # Live children that are ours, as the API server has them.
    children: Mapping[ChildKey, Manifest] = field(default_factory=dict)
    # Names that we want and that somebody else has.
    foreign: frozenset[ChildKey] = frozenset()
    refusals: tuple[Refusal, ...] = ()
    quiet: Mapping[str, Quiet] = field(default_factory=dict)
    # Fields that the cluster's CRDs lack, as ``Kind.path.of.field``.
    missing_fields: tuple[str, ...] = ()
    # Workers (by name) whose KV cache has been held for nobody since then.
    stranded: Mapping[str, float] = field(default_factory=dict)
    # The lists of the routers that were asked and answered.
    routings: tuple[Routing, ...] = ()
    # Of workers that are gone; a router may not have heard.
    former_addresses: frozenset[str] = frozenset()
    # When a worker last gave its hardware back, or this process began to look, which may be just after.
    freed_at: float = 0.0
    status: Mapping[str, Any] = field(default_factory=dict)
    # Access modes of the claim that the model is on; None: not known, or there is no claim.
    claim_modes: tuple[str, ...] | None = None
    # Does the endpoint picker's Service have a ready endpoint? None: not asked, or no answer.
    picker_ready: bool | None = None

    def child(self, kind: Kind, name: str) -> Manifest | None:
        return self.children.get((kind.plural, name))

    def is_foreign(self, kind: Kind, name: str) -> bool:
        return (kind.plural, name) in self.foreign

    def others_of(self, worker: str) -> tuple[PodView, ...]:
        """The pods of a worker on several nodes beside the one that it is called by."""
        ranks = next((pod.ranks for pod in self.pods if pod.name == worker), ())
        return tuple(pod for pod in ranks if pod.name != worker)

    def owner_reference(self) -> Manifest:
        """Every child carries it, so that the garbage collector removes all when the service goes."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.INFERENCE_SERVICE,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }


def owned_by(manifest: Manifest, uid: str) -> bool:
    """True when the object's controller is the object with this uid."""
    references = manifest.get("metadata", {}).get("ownerReferences") or []
    return any(reference.get("uid") == uid for reference in references)
