"""Everything beside the operator that changes objects: scheduler, kubelets, node and Deployment controllers.

Each does one small thing when it is asked to, so that a test decides about the order of the world.
"""

from dataclasses import dataclass, field
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import DEPLOYMENT, POD, Manifest
from tandem_operator.observe.timestamp import format_time
from tests.operator.lifecycle.simulated_cluster import SimulatedCluster, gpus_held, labels_of


@dataclass
class Nodes:
    """`gpus`: by node. A lost node's pods keep their GPUs until it is back."""

    server: SimulatedCluster
    gpus: dict[str, int]
    lost: set[str] = field(default_factory=set)
    # Uids of pods that do not end although they should.
    stuck: set[str] = field(default_factory=set)

    def free(self, node: str) -> int:
        return self.gpus[node] - sum(
            gpus_held(pod) for pod in self.server.all(POD) if pod["spec"].get("nodeName") == node
        )

    # --- one pod -----------------------------------------------------------------------------------------
    def advance(self, pod: Manifest) -> bool:
        """The next thing that happens to it by itself: bound, started, ready, ended. False when nothing does."""
        node, status = pod["spec"].get("nodeName"), pod.get("status") or {}
        if node in self.lost:
            return False
        if "deletionTimestamp" in pod["metadata"]:
            if pod["metadata"]["uid"] in self.stuck:
                return False
            self.server.remove(POD, pod["metadata"]["name"])
            return True
        if status.get("phase") in ("Failed", "Succeeded"):
            return False
        if node is None:
            return self._schedule(pod)
        engine = _engine(pod)
        if not engine.get("started"):
            self._report(pod, started=True, ready=False)
        elif not _is_ready(pod):
            self._report(pod, started=True, ready=True)
        else:
            return False
        return True

    def _schedule(self, pod: Manifest) -> bool:
        needed = gpus_held(pod)
        for node in sorted(self.gpus):
            if node not in self.lost and self.free(node) >= needed:
                bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
                self._write(bound, {"phase": "Pending", "conditions": [_condition("PodScheduled", True)]})
                return True
        waits = _condition("PodScheduled", False) | {
            "reason": "Unschedulable",
            "message": f"0/{len(self.gpus)} nodes are available: {len(self.gpus)} Insufficient nvidia.com/gpu.",
        }
        self._write(pod, {"phase": "Pending", "conditions": [waits]})
        return self.server.get(POD, pod["metadata"]["name"]) is not pod

    def _report(self, pod: Manifest, *, started: bool, ready: bool, **more: Any) -> None:
        state = {**_engine(pod), "name": names.ENGINE_CONTAINER, "started": started, "ready": ready, **more}
        readiness = _condition("Ready", ready) | {"lastTransitionTime": format_time(self.server.clock())}
        self._write(
            pod,
            {
                "phase": "Running",
                # One address per pod; the uid is in it, so that traffic finds its pod again.
                "podIP": pod["metadata"]["uid"],
                "conditions": [_condition("PodScheduled", True), readiness],
                "containerStatuses": [{"state": {"running": {}}, **state}],
            },
        )

    def crash(self, pod: Manifest) -> None:
        """The engine ends and is started again in place."""
        if not _engine(pod) or pod["spec"].get("nodeName") in self.lost:
            return
        restarts = int(_engine(pod).get("restartCount") or 0) + 1
        ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
        self._report(pod, started=False, ready=False, restartCount=restarts, lastState=ended)

    def turn_unready(self, pod: Manifest) -> None:
        """Its readiness probe fails; the engine goes on."""
        if _is_ready(pod):
            self._report(pod, started=True, ready=False)

    def hold_on_to(self, pod: Manifest) -> None:
        """It will not end, whoever deletes it."""
        self.stuck.add(pod["metadata"]["uid"])

    def evict(self, pod: Manifest) -> None:
        if pod["spec"].get("nodeName", "none") not in self.lost | {"none"}:
            self._write(
                pod, {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
            )

    # --- nodes -------------------------------------------------------------------------------------------
    def lose(self, node: str) -> None:
        """It answers no more: its pods are unready, and deleted without anybody there to end them."""
        self.lost.add(node)
        for pod in self.server.all(POD):
            if pod["spec"].get("nodeName") != node or (pod["status"].get("phase") in ("Failed", "Succeeded")):
                continue
            conditions = [_condition("PodScheduled", True), _condition("Ready", False)]
            self._write(pod, {**pod["status"], "reason": "NodeLost", "conditions": conditions})
            self.server.delete(POD, pod["metadata"]["name"])

    def find_again(self) -> None:
        self.lost.clear()

    # --- the router --------------------------------------------------------------------------------------
    def roll_deployments(self) -> None:
        for deployment in self.server.all(DEPLOYMENT):
            replicas = int(deployment["spec"].get("replicas") or 0)
            status = {
                "observedGeneration": deployment["metadata"]["generation"], "replicas": replicas,
                "readyReplicas": replicas, "updatedReplicas": replicas,
            }  # fmt: skip
            if deployment.get("status") != status:
                self.server.update(DEPLOYMENT, {**deployment, "status": status})

    def _write(self, pod: Manifest, status: Manifest) -> None:
        self.server.update(POD, {**pod, "status": status})


def _condition(type_: str, holds: bool) -> Manifest:
    return {"type": type_, "status": "True" if holds else "False"}


def _engine(pod: Manifest) -> Manifest:
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def is_running(pod: Manifest) -> bool:
    """Its engine may have requests: started, not ended, not terminated."""
    return bool(_engine(pod).get("started")) and (pod.get("status") or {}).get("phase") == "Running"


def is_routable(pod: Manifest) -> bool:
    """What the router selects."""
    return (
        _is_ready(pod)
        and labels_of(pod).get(names.LABEL_SERVING) == "true"
        and "deletionTimestamp" not in pod["metadata"]
    )
