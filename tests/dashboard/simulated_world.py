"""A cluster of simulated fleets: the loop lists its objects, reads its workers and writes its pools as in a real one.

Time is simulated too. Every pool that the loop writes sizes the fleet behind it.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    INFERENCE_SERVICE,
    POD,
    WORKER_POOL,
    Kind,
    Manifest,
    Rejected,
    Unavailable,
)  # fmt: skip
from tandem_autoscaler.dashboard.trail import Trail
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.fleet.service import Key, Pod, Service
from tandem_autoscaler.loop import Autoscaler
from tandem_autoscaler.signals.source import Snapshot
from tandem_autoscaler.simulator.catalogue import hardware
from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.readings import EPOCH_SECONDS, Readings
from tandem_autoscaler.simulator.trace import Trace

TICK_SECONDS = 5.0


@dataclass
class Simulated:
    """One InferenceService. `fleet` None: nothing runs yet. `silent`: its workers do not answer."""

    manifest: Manifest
    fleet: Fleet | None = None
    pools: dict[str, int] = field(default_factory=dict)
    silent: str | None = None
    readings: Readings | None = None


class World:
    """A `Cluster` and a `SignalSource`. `down`: the API server cannot be reached; `refuse_scale`: its sentence."""

    def __init__(self, *, gpu_budget: int | None = None) -> None:
        self.services: dict[Key, Simulated] = {}
        self.simulated_seconds = 0.0
        self.down = False
        self.refuse_scale: str | None = None
        self.trail = Trail()
        self.autoscaler = Autoscaler(
            self, self, Settings(reaction_seconds=2 * TICK_SECONDS), clock=self.clock, gpu_budget=gpu_budget,
            watcher=self.trail.see,
        )  # fmt: skip

    def clock(self) -> float:
        return EPOCH_SECONDS + self.simulated_seconds

    async def run(self, seconds: float) -> None:
        """So much simulated time, with a tick every five seconds."""
        end = self.simulated_seconds + seconds
        while self.simulated_seconds < end - 1e-6:
            self.simulated_seconds += TICK_SECONDS
            for one in self.services.values():
                if one.fleet is not None:
                    one.fleet.advance(self.simulated_seconds)
            await self.autoscaler.tick()

    def add(
        self, name: str, trace: Trace | None = None, *, namespace: str = "default", worker: str = "h100-llama-8b",
        prefill: int = 1, decode: int = 1, uid: str = "", annotations: dict[str, str] | None = None, **spec: Any,
    ) -> Simulated:  # fmt: skip
        """`spec` replaces keys of the manifest's spec. Without a trace there are no pools and no pods."""
        manifest = {
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "generation": 1,
                "annotations": annotations or {},
            },
            "spec": {
                "mode": "Disaggregated", "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "name": "llama-8b"},
                "slo": {"ttft": "1s", "tpot": "40ms", "percentile": 95},
                "prefill": {"minReplicas": 1, "maxReplicas": 8}, "decode": {"minReplicas": 1, "maxReplicas": 8},
                **spec,
            },
        }  # fmt: skip
        made = Simulated(manifest)
        if trace is not None:
            settings = FleetSettings(1.0, 0.04, router="power_of_two", cold_start_seconds=40.0, undrain=True)
            made.fleet = Fleet(trace, hardware(worker), settings, prefill, decode)
            made.readings = Readings(made.fleet)
            made.pools = {names.PREFILL: prefill, names.DECODE: decode}
        self.services[(namespace, name)] = made
        return made

    # --- Cluster ------------------------------------------------------------------------------------------
    async def list(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> list[Manifest]:
        if self.down:
            raise Unavailable("the API server cannot be reached")
        if kind is INFERENCE_SERVICE:
            return [copy.deepcopy(one.manifest) for one in self.services.values()]
        if kind is WORKER_POOL:
            return [
                _pool(key, role, n) for key, one in self.services.items() for role, n in one.pools.items()
            ]
        assert kind is POD
        return [_pod(key, pod) for key, one in self.services.items() for pod in _read(one)[0]]

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        raise AssertionError("the loop reads lists alone")

    async def create(self, kind: Kind, manifest: Manifest, *, manager: str) -> Manifest:
        return manifest  # events

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Any = None
    ) -> Manifest:
        metadata = manifest["metadata"]
        found = self.services[(metadata["namespace"], metadata["name"])].manifest
        found["status"] = {**found.get("status", {}), **manifest["status"]}
        return found

    async def patch(
        self, kind: Kind, namespace: str | None, name: str, merge: Manifest, *, manager: str, subresource: Any = None
    ) -> Manifest:  # fmt: skip
        if self.refuse_scale is not None:
            raise Rejected(self.refuse_scale, status=403)
        service, _, role = name.rpartition("-")
        one = self.services[(namespace or "", service)]
        one.pools[role] = merge["spec"]["replicas"]
        if one.fleet is not None:
            one.fleet.set_targets(one.pools[names.PREFILL], one.pools[names.DECODE])
        return merge

    async def delete(self, *_: Any, **__: Any) -> None:
        raise AssertionError("the loop deletes nothing")

    # --- SignalSource -------------------------------------------------------------------------------------
    async def sample(self, services: Sequence[Service], now_seconds: float) -> dict[Key, Snapshot]:
        return {service.key: self._snapshot(service, now_seconds) for service in services}

    async def close(self) -> None:
        """Nothing is open."""

    def _snapshot(self, service: Service, now_seconds: float) -> Snapshot:
        one = self.services[service.key]
        if one.silent is not None:
            ready = [pod.uid for pod in service.pods if pod.ready]
            return Snapshot(now_seconds, silent=dict.fromkeys(ready, one.silent))
        return Snapshot(now_seconds, _read(one)[1].pods)


def _read(one: Simulated) -> tuple[tuple[Pod, ...], Snapshot]:
    if one.readings is None:
        return (), Snapshot(0.0)
    service, snapshot = one.readings.read()
    return service.pods, snapshot


def _pool(key: Key, role: str, replicas: int) -> Manifest:
    namespace, service = key
    return {
        "metadata": {"namespace": namespace, "name": names.pool_name(service, role)},
        "spec": {"service": service, "role": role, "replicas": replicas},
    }


def _pod(key: Key, pod: Pod) -> Manifest:
    namespace, service = key
    labels = {**names.worker_labels(service, pod.role), names.LABEL_TEMPLATE_HASH: pod.role}
    metadata: Manifest = {
        "namespace": namespace, "name": pod.name, "uid": pod.uid, "creationTimestamp": _stamp(pod.created_at_seconds),
        "labels": labels if pod.draining else {**labels, names.LABEL_SERVING: "true"},
    }  # fmt: skip
    if pod.draining:
        metadata["deletionTimestamp"] = _stamp(pod.created_at_seconds)
    since = pod.ready_since_seconds
    ready = {"type": "Ready", "status": "True" if pod.ready else "False"}
    if since is not None:
        ready["lastTransitionTime"] = _stamp(since)
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": [ready]}}


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
