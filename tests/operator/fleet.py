"""A service and its fleet as plain data, for tests of the pure rooms; and a world that does what a plan says.

`Fleet` plays API server and kubelet in a few lines: it keeps manifests, so that everything runs through the real
`observe`, `plan` and builders.
"""

import copy
import itertools
from collections.abc import Iterable
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import POD, WORKER_POOL
from tandem_operator.carry_out.compare import up_to_date
from tandem_operator.carry_out.status_writer import own_part
from tandem_operator.observe.load import Load, LoadBook
from tandem_operator.observe.observe import observe
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.timestamp import format_time
from tandem_operator.plan.actions import (
    Action,
    Apply,
    Create,
    CreatePool,
    Delete,
    Drain,
    Flip,
    Plan,
    Undrain,
)
from tandem_operator.plan.drain import seconds_to_settle
from tandem_operator.plan.plan import plan
from tandem_operator.plan.settings import Settings

Manifest = dict[str, Any]
SETTINGS = Settings()
START = 1_800_000_000.0


def spec(**changes: Any) -> Manifest:
    """A Disaggregated spec with External scaling; fields by their wire names."""
    return {
        "mode": "Disaggregated",
        "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "name": "llama"},
        "autoscaling": {"mode": "External"},
        "prefill": {"minReplicas": 1, "maxReplicas": 8},
        "decode": {"minReplicas": 1, "maxReplicas": 8},
        **changes,
    }


def colocated(**changes: Any) -> Manifest:
    return {
        "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"},
        "autoscaling": {"mode": "External"},
        "workers": {"minReplicas": 1, "maxReplicas": 8},
        **changes,
    }


class Fleet:
    """One InferenceService `chat` and everything that belongs to it."""

    def __init__(self, wish: Manifest | None = None, *, settings: Settings = SETTINGS) -> None:
        self.now = START
        self.settings = settings
        self.service: Manifest = {
            "kind": names.INFERENCE_SERVICE,
            "metadata": {"name": "chat", "namespace": "team", "uid": "service-uid", "generation": 1},
            "spec": wish if wish is not None else spec(),
        }
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.busy: dict[str, float | None] = {}
        self.picker_ready: bool | None = None
        self.writes = 0
        self.log: list[Action] = []
        self.events: list[Any] = []
        self._uids = itertools.count(1)
        self._book = LoadBook()

    # --- what a user does --------------------------------------------------------------------------------
    def edit(self, **changes: Any) -> None:
        self.service["spec"] = {**self.service["spec"], **changes}
        self.service["metadata"]["generation"] += 1

    def scale(self, role: str, replicas: int) -> None:
        self.objects[(WORKER_POOL.plural, f"chat-{role}")]["spec"]["replicas"] = replicas

    # --- what the operator sees and does -----------------------------------------------------------------
    def observed(self) -> Observed:
        seen = observe(self.service, self.objects)
        quiet = {}
        for pod in seen.pods:
            if pod.started:
                load = Load(in_flight=self.busy.get(pod.name, 0.0), kv_usage=0.0)
                quiet[pod.name] = self._book.note(
                    pod, load, now=self.now, settle_seconds=seconds_to_settle(seen, self.settings)
                )
        return Observed(**{**seen.__dict__, "quiet": quiet, "picker_ready": self.picker_ready})

    def plan(self) -> Plan:
        return plan(self.observed(), self.now, self.settings)

    def step(self) -> Plan:
        """One pass, carried out."""
        decided = self.plan()
        for apply in decided.objects:
            self._apply(apply)
        for pool in decided.pools:
            if isinstance(pool, CreatePool):
                self._create(WORKER_POOL.plural, pool.manifest)
            else:
                self.scale(pool.pool.removeprefix("chat-"), pool.replicas)
                self.writes += 1
        for mark in decided.marks:
            self._merge(mark.pod, mark.labels, mark.annotations)
        for action in decided.actions:
            self._act(action)
        for removal in decided.removals:
            del self.objects[(removal.kind.plural, removal.name)]
            self.writes += 1
        for name, status in decided.pool_status.items():
            pool = self.objects[(WORKER_POOL.plural, name)]
            if pool.get("status") != status:
                pool["status"] = dict(status)
                self.writes += 1
        if decided.status is not None and own_part(self.service.get("status") or {}) != own_part(
            decided.status
        ):
            self.service["status"] = dict(decided.status)
            self.writes += 1
        self.events += decided.events
        return decided

    def settle(self, *, passes: int = 200, kubelet: bool = True, seconds: float = 1.0) -> None:
        """Passes until nothing is written any more and nobody waits; fails when that does not come."""
        quiet_passes = 0
        for _ in range(passes):
            before = self.writes
            decided = self.step()
            if kubelet:
                self.kubelet()
            quiet = self.writes == before and decided.requeue_seconds is None
            # Twice, because the kubelet may have had news after the first.
            quiet_passes = quiet_passes + 1 if quiet else 0
            if quiet_passes == 2:
                return
            self.now += seconds
        raise AssertionError("the fleet never comes to rest")

    def _apply(self, apply: Apply) -> None:
        key = (apply.kind.plural, apply.manifest["metadata"]["name"])
        live = self.objects.get(key)
        if live is None:
            self._create(apply.kind.plural, apply.manifest)
        elif not up_to_date(live, apply.manifest):
            kept = {"uid": live["metadata"]["uid"], "generation": live["metadata"]["generation"] + 1}
            self.objects[key] = {**copy.deepcopy(apply.manifest), "status": live.get("status", {})}
            self.objects[key]["metadata"].update(kept)
            self.writes += 1

    def _create(self, plural: str, manifest: Manifest) -> None:
        key = (plural, manifest["metadata"]["name"])
        assert key not in self.objects, f"{key} is there already"
        made = copy.deepcopy(manifest)
        made["metadata"] |= {
            "uid": f"uid-{next(self._uids)}", "generation": 1, "creationTimestamp": format_time(self.now)
        }  # fmt: skip
        self.objects[key] = made
        self.writes += 1

    def _act(self, action: Action) -> None:
        self.log.append(action)
        match action:
            case Create():
                for manifest in (action.manifest, *action.others):
                    self._create(POD.plural, manifest)
            case Drain():
                annotations = {names.ANNOTATION_DRAIN_STARTED: format_time(action.started)}
                if action.reversible:
                    annotations[names.ANNOTATION_DRAIN_REVERSIBLE] = "true"
                self._merge(action.pod, {names.LABEL_SERVING: None}, annotations)
            case Undrain():
                nothing = dict.fromkeys((names.ANNOTATION_DRAIN_STARTED, names.ANNOTATION_DRAIN_REVERSIBLE))
                self._merge(action.pod, {names.LABEL_SERVING: "true"}, nothing)
            case Flip():
                gone = dict.fromkeys((names.ANNOTATION_DRAIN_STARTED, names.ANNOTATION_DRAIN_REVERSIBLE))
                labels = {names.LABEL_SERVING: "true", names.LABEL_ROLE: action.role}
                flipped = {**gone, names.ANNOTATION_FLIPPED_AT: format_time(action.at)}
                self._merge(action.pod, labels, flipped)
            case Delete():
                seen = observe(self.service, self.objects)
                for name in (action.pod, *(pod.name for pod in seen.others_of(action.pod))):
                    self.pod(name)["metadata"]["deletionTimestamp"] = format_time(self.now + 30)
                self.writes += 1

    def _merge(self, pod: str, labels: Any, annotations: Any) -> None:
        metadata = self.pod(pod)["metadata"]
        for field, changes in (("labels", labels), ("annotations", annotations)):
            values = metadata.setdefault(field, {})
            for key, value in changes.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
        self.writes += 1

    # --- what kubelets do --------------------------------------------------------------------------------
    def pod(self, name: str) -> Manifest:
        return self.objects[(POD.plural, name)]

    def pods(self, *, role: str | None = None) -> list[Manifest]:
        found = [item for (plural, _), item in sorted(self.objects.items()) if plural == POD.plural]
        return [pod for pod in found if role is None or pod["metadata"]["labels"][names.LABEL_ROLE] == role]

    def run(self, names_: Iterable[str] | None = None) -> None:
        """Let these pods (all) serve."""
        for pod in self.pods() if names_ is None else [self.pod(name) for name in names_]:
            pod["status"] = {
                "phase": "Running",
                "podIP": "127.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {"name": "engine", "ready": True, "started": True, "state": {"running": {}}}
                ],
            }

    def kubelet(self) -> None:
        """Ending pods end, the others serve, and the router's Deployment is rolled out."""
        for pod in self.pods():
            if pod["metadata"].get("deletionTimestamp"):
                del self.objects[(POD.plural, pod["metadata"]["name"])]
        self.run(
            pod["metadata"]["name"] for pod in self.pods() if pod.get("status", {}).get("phase") != "Failed"
        )
        router = self.objects.get(("deployments", "chat-router"))
        if router is not None:
            replicas = router["spec"]["replicas"]
            router["status"] = {
                "observedGeneration": router["metadata"]["generation"], "replicas": replicas,
                "readyReplicas": replicas, "updatedReplicas": replicas,
            }  # fmt: skip

    # --- what one may ask --------------------------------------------------------------------------------
    def gpus(self) -> int:
        """GPUs held right now, by the scheduler's reckoning."""
        total = 0
        for pod in self.pods():
            for container in pod["spec"]["containers"]:
                total += int(container.get("resources", {}).get("limits", {}).get(names.GPU_RESOURCE, 0))
        return total

    def condition(self, type_: str) -> Manifest:
        return next(c for c in self.service["status"]["conditions"] if c["type"] == type_)

    def counts(self) -> dict[str, int]:
        """Serving members per role."""
        found: dict[str, int] = {}
        for pod in observe(self.service, self.objects).pods:
            if pod.member:
                found[pod.role] = found.get(pod.role, 0) + 1
        return found
