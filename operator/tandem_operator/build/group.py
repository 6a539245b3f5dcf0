"""The pods of a worker that runs on several nodes: one engine, started once per node (docs/adr/0009).

vLLM's words for it, without Ray: every rank has the same parallel sizes and `--nnodes`, its own `--node-rank`, and the
address of rank 0; all but rank 0 are `--headless`, without an HTTP server.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tandem_api import names
from tandem_api.inference_service import Role
from tandem_api.kubernetes.cluster import SERVICE, Manifest
from tandem_operator.build.ownership import child

# vLLM takes its own address from here; unset, it guesses by the default route.
HOST_IP = "VLLM_HOST_IP"


@dataclass(frozen=True)
class Place:
    """Where a pod stands in its group; `leader` is the leader's pod name, `service` the InferenceService."""

    namespace: str
    service: str
    leader: str
    rank: int
    nodes: int

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def pod_name(self) -> str:
        return self.leader if self.leads else names.follower_name(self.leader, self.rank)

    @property
    def leader_address(self) -> str:
        """The leader's name in DNS, the same whichever node it is on and before it is ready."""
        return f"{self.leader}.{names.leaders_name(self.service)}.{self.namespace}.svc"


def parallel_args(role: Role) -> list[str]:
    """How the engine is cut over its GPUs. What one GPU, or the CPU of one pod, cannot differ in is left unsaid."""
    words = ["--tensor-parallel-size", str(role.tensor_size)] if role.gpus > 0 or role.nodes > 1 else []
    if role.pipeline_size > 1:
        words += ["--pipeline-parallel-size", str(role.pipeline_size)]
    if role.data_parallel > 1:
        words += ["--data-parallel-size", str(role.data_parallel)]
    return words


def rank_args(place: Place) -> list[str]:
    """What tells one rank from another. The leader names its own address, so that it needs no DNS to begin."""
    address = f"$({HOST_IP})" if place.leads else place.leader_address
    words = [
        "--nnodes", str(place.nodes),
        "--node-rank", str(place.rank),
        "--master-addr", address,
        "--master-port", str(names.MASTER_PORT),
    ]  # fmt: skip
    return words if place.leads else [*words, "--headless"]


def all_ranks(labels: Mapping[str, str]) -> Manifest:
    """The selector of workers with these labels and of their followers."""
    pods = [names.COMPONENT_WORKER, names.COMPONENT_FOLLOWER]
    return {
        "matchLabels": dict(sorted(labels.items())),
        "matchExpressions": [{"key": names.LABEL_COMPONENT, "operator": "In", "values": pods}],
    }


def rank_labels(place: Place) -> dict[str, str]:
    return {names.LABEL_GROUP: place.leader, names.LABEL_RANK: str(place.rank)}


def leaders_service(*, namespace: str, service: str, owner: Manifest) -> Manifest:
    """The headless Service `<service>-leaders`; the leaders' pods name it as their subdomain."""
    return child(
        SERVICE,
        namespace=namespace,
        service=service,
        name=names.leaders_name(service),
        component=names.COMPONENT_WORKER,
        owner=owner,
        spec={
            "type": "ClusterIP",
            "clusterIP": "None",
            # The ranks meet before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": {
                names.LABEL_COMPONENT: names.COMPONENT_WORKER,
                names.LABEL_RANK: "0",
                names.LABEL_SERVICE: service,
            },
        },
    )
