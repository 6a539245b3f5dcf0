"""The simulated fleets of docs/pictures, with the real operator beside the real autoscaler.

Both write to one simulated API server. A pod that the operator makes becomes a worker of the simulated fleet, one that
it drains takes no new requests, and what the fleet's workers export is what operator, autoscaler and Prometheus read.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx
import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from docs.pictures.grafana.scrapes import Scrapes, worker_samples
from tandem_api import names
from tandem_api.kubernetes.cluster import (
    INFERENCE_SERVICE,
    POD,
    WORKER_POOL,
    ApiError,
    Kind,
    Manifest,
    Unavailable,
)
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.own_metrics import registry
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tandem_autoscaler.simulator import core
from tandem_autoscaler.simulator.fleet import ROLES, Fleet
from tandem_autoscaler.simulator.readings import Readings
from tandem_autoscaler.simulator.trace import Trace
from tandem_operator.metrics import Metrics
from tandem_operator.plan.settings import Settings
from tandem_operator.watch.world import ServiceKey
from tests.dashboard.simulated_world import TICK_SECONDS, Simulated, World
from tests.operator.lifecycle.operator_process import OperatorProcess, Promises
from tests.operator.lifecycle.simulated_cluster import SimulatedCluster, Write, labels_of
from tests.operator.lifecycle.simulated_nodes import Nodes, is_running
from tests.operator.lifecycle.simulated_traffic import Traffic

SCRAPE_SECONDS = 15.0  # monitoring.podMonitors.interval
# Until all first workers serve, with room to spare; the traces begin after it.
_PREPARATION_SECONDS = 60.0


class PodFleet(Fleet):
    """A fleet whose workers are started and drained one by one, as the operator asks."""

    def begin(self, role: str, *, ready_in_seconds: float | None = None) -> int:
        """A new worker's number. Default: after a cold start."""
        delay = self._cold_start() if ready_in_seconds is None else ready_in_seconds
        self._start_at(ROLES[role], self.now_seconds, self.now_seconds + delay)
        self._settle()
        return int(self.state.workers["uid"].max())

    def first_workers(self, role: str) -> list[int]:
        """Numbers of those that are ready."""
        return [int(uid) for uid in self.state.workers["uid"][self._in_phase(ROLES[role], core.READY)]]

    def _slot(self, number: int) -> int | None:
        workers = self.state.workers
        found = np.flatnonzero((workers["uid"] == number) & (workers["phase"] != core.ABSENT))
        return int(found[0]) if len(found) else None

    def is_ready(self, number: int) -> bool:
        slot = self._slot(number)
        return slot is not None and int(self.state.workers["phase"][slot]) == core.READY

    def is_there(self, number: int) -> bool:
        """With or without requests; one that drained vanishes with its last request."""
        return self._slot(number) is not None

    def drain(self, number: int) -> None:
        slot = self._slot(number)
        if slot is not None and int(self.state.workers["phase"][slot]) in (core.READY, core.STARTING):
            core.release(self.state, slot, -1)
            self._settle()

    def take_back(self, number: int) -> bool:
        """False when it has vanished already."""
        slot = self._slot(number)
        if slot is None:
            return False
        if int(self.state.workers["phase"][slot]) == core.DRAINING:
            core.undrain(self.state, slot)
            self._settle()
        return True


@dataclass
class _Worker:
    """The fleet's worker behind a pod, in the role that it has now. `last`: what its engine told last."""

    fleet: PodFleet
    number: int
    role: str
    last: PodReading | None = None


class OperatedWorld(World):
    """`World`, whose pods and pools are the operator's."""

    def __init__(self, scrapes: Scrapes, *, gpu_budget: int, nodes: dict[str, int]) -> None:
        super().__init__(gpu_budget=gpu_budget)
        self._loop = asyncio.new_event_loop()
        self.server = SimulatedCluster(self.clock)
        self._nodes = _Kubelets(self.server, nodes, self._serves, self._is_gone)
        self._workers: dict[str, _Worker] = {}  # by the pod's uid
        self._told: dict[str, Manifest] = {}  # what the autoscaler wrote into a service's status
        self._metrics = Metrics()
        self._operator: _MeasuredOperator | None = None
        self.scrapes = scrapes
        self._read: tuple[float, dict[str, PodReading]] = (0.0, {})  # when, and what

    def add(self, name: str, trace: Trace | None = None, **spec: Any) -> Simulated:
        made = super().add(name, trace, **spec)
        if made.fleet is not None:
            # The same, but its workers are the operator's to start.
            made.fleet = PodFleet(
                made.fleet.trace, made.fleet.hardware, made.fleet.settings, *made.fleet.targets
            )
            made.readings = Readings(made.fleet)
        self.server.create(
            INFERENCE_SERVICE,
            {"apiVersion": names.API_VERSION, "kind": names.INFERENCE_SERVICE, **made.manifest},
        )
        return made

    # --- time ---------------------------------------------------------------------------------------------
    def operate(self, seconds: float) -> None:
        """So much simulated time of all services; the operator looks each second, the autoscaler ticks each five."""
        if self._operator is None:
            self._prepare()
        end = self.simulated_seconds + seconds
        while self.simulated_seconds < end - 1e-6:
            self.simulated_seconds += 1.0
            for one in self.services.values():
                if one.fleet is not None:
                    one.fleet.advance(self.simulated_seconds)
            self._cluster_goes_on()
            if self.simulated_seconds % TICK_SECONDS == 0:
                self._tick()
            if self.simulated_seconds % SCRAPE_SECONDS == 0:
                self._scrape()

    def _tick(self) -> None:
        """As the autoscaler's own loop: timed by the wall clock."""
        began = time.monotonic()
        self._loop.run_until_complete(self.autoscaler.tick())
        self.autoscaler.counts.timed_ticks += 1
        self.autoscaler.counts.tick_seconds += time.monotonic() - began

    def end(self) -> None:
        if self._operator is not None:
            self._operator.end()
        self._loop.close()

    def _prepare(self) -> None:
        """The operator makes the first workers; they serve when the traces begin."""
        self.simulated_seconds = -_PREPARATION_SECONDS
        self._metrics.leader.set(1)
        self._operator = _MeasuredOperator(
            self.server, _Engines(self.server, self._page), _Counted(self._metrics), self._metrics, self._loop
        )
        while self.simulated_seconds < 0.0:
            self.simulated_seconds += 1.0
            self._cluster_goes_on()
            for (_, service), one in self.services.items():
                for role, replicas in one.pools.items():
                    pool = names.pool_name(service, role)
                    if self.server.get(WORKER_POOL, pool) is not None:
                        self.server.patch(WORKER_POOL, pool, {"spec": {"replicas": replicas}})

    def _cluster_goes_on(self) -> None:
        assert self._operator is not None
        for pod in self.server.all(POD):
            self._bind(pod)
            self._nodes.advance(pod)
        self._nodes.roll_deployments()
        self._operator.hear_everything()
        while self._operator.work():
            pass
        self._operator.measure()

    # --- pods are workers ---------------------------------------------------------------------------------
    def _fleet_of(self, pod: Manifest) -> PodFleet | None:
        key = (pod["metadata"]["namespace"], labels_of(pod)[names.LABEL_SERVICE])
        return cast("PodFleet | None", self.services[key].fleet)

    def _bind(self, pod: Manifest) -> None:
        """The fleet's worker does what the pod's labels say."""
        fleet, uid, role = self._fleet_of(pod), pod["metadata"]["uid"], labels_of(pod)[names.LABEL_ROLE]
        if fleet is None or "nodeName" not in pod["spec"]:
            return
        leaves = "deletionTimestamp" in pod["metadata"] or (
            is_running(pod) and labels_of(pod).get(names.LABEL_SERVING) != "true" and uid in self._workers
        )
        known = self._workers.get(uid)
        if known is None:
            if not leaves:
                self._workers[uid] = _Worker(fleet, self._new(fleet, role), role)
        elif leaves:
            # A pod that has not served yet has no label either, and is no leaver.
            if known.last is not None or "deletionTimestamp" in pod["metadata"]:
                fleet.drain(known.number)
        elif known.role != role or not fleet.take_back(known.number):
            # It comes back empty, at once or in another role: its engine has been running all the while.
            flip = fleet.settings.flip_seconds if known.role != role else 0.0
            self._workers[uid] = _Worker(fleet, fleet.begin(role, ready_in_seconds=flip), role)

    def _new(self, fleet: PodFleet, role: str) -> int:
        """Before the traces begin: one of those that are there. After: a new one."""
        if self.simulated_seconds > 0.0:
            return fleet.begin(role)
        taken = {worker.number for worker in self._workers.values() if worker.fleet is fleet}
        return next(number for number in fleet.first_workers(role) if number not in taken)

    def _serves(self, pod: Manifest) -> bool:
        fleet, worker = self._fleet_of(pod), self._workers.get(pod["metadata"]["uid"])
        return fleet is not None and worker is not None and fleet.is_ready(worker.number)

    def _is_gone(self, pod: Manifest) -> bool:
        """Its gate has closed: the last request has ended."""
        fleet, worker = self._fleet_of(pod), self._workers.get(pod["metadata"]["uid"])
        return fleet is None or worker is None or not fleet.is_there(worker.number)

    def _readings(self) -> dict[str, PodReading]:
        """By pod uid, read once a moment."""
        if self._read[0] != self.clock():
            self._read = self.clock(), self._read_all()
        return self._read[1]

    def _read_all(self) -> dict[str, PodReading]:
        """A worker that has drained says the last time's counts, and that nothing is open."""
        numbered: dict[int, dict[str, PodReading]] = {
            id(one.fleet): dict(one.readings.read()[1].pods)
            for one in self.services.values()
            if one.readings is not None
        }
        found: dict[str, PodReading] = {}
        for pod in self.server.all(POD):
            fleet, worker = self._fleet_of(pod), self._workers.get(pod["metadata"]["uid"])
            if fleet is None or worker is None or not is_running(pod):
                continue
            now = numbered[id(fleet)].get(f"worker-{worker.number}")
            if now is None and worker.last is not None:
                now = replace(worker.last, gauges=dict.fromkeys(worker.last.gauges, 0.0))
            if now is not None:
                uid = pod["metadata"]["uid"]
                worker.last = found[uid] = replace(now, uid=uid)
        return found

    def _page(self, uid: str) -> str | None:
        """An engine's /metrics; None: it does not answer."""
        reading = self._readings().get(uid)
        if reading is None:
            return None
        return "".join(f"{sample.series} {sample.value}\n" for sample in worker_samples(reading))

    def _scrape(self) -> None:
        now, readings = self.clock(), self._readings()
        self.scrapes.take(now, _text(self._metrics.registry), job="operator", pod="tandem-operator-0")
        own = registry(self.autoscaler, leading=lambda: True)
        self.scrapes.take(now, _text(own), job="autoscaler", pod="tandem-autoscaler-0")
        for pod in self.server.all(POD):
            reading = readings.get(pod["metadata"]["uid"])
            if reading is not None:
                labels, metadata = labels_of(pod), pod["metadata"]
                self.scrapes.add(
                    now, worker_samples(reading), job="workers", namespace=metadata["namespace"], pod=metadata["name"],
                    service=labels[names.LABEL_SERVICE], role=labels[names.LABEL_ROLE],
                )  # fmt: skip

    # --- the autoscaler's Cluster and SignalSource ----------------------------------------------------------
    async def list(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> list[Manifest]:
        found = self.server.listed(kind)
        return [self._with_told(one) for one in found] if kind is INFERENCE_SERVICE else found

    def _with_told(self, service: Manifest) -> Manifest:
        """Operator and autoscaler own different fields of one status, and different conditions."""
        told, status = self._told.get(service["metadata"]["name"], {}), service.get("status") or {}
        conditions = [*(status.get("conditions") or []), *(told.get("conditions") or [])]
        return {**service, "status": {**status, **told, "conditions": conditions}}

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Any = None
    ) -> Manifest:
        self._told[manifest["metadata"]["name"]] = manifest["status"]
        found = self.server.get(INFERENCE_SERVICE, manifest["metadata"]["name"])
        assert found is not None
        return self._with_told(found)

    async def patch(
        self, kind: Kind, namespace: str | None, name: str, merge: Manifest, *, manager: str, subresource: Any = None
    ) -> Manifest:  # fmt: skip
        return self.server.patch(kind, name, merge)

    def _snapshot(self, service: Service, now_seconds: float) -> Snapshot:
        readings = self._readings()
        there = {pod.uid: readings[pod.uid] for pod in service.pods if pod.uid in readings}
        return Snapshot(now_seconds, there)


def _text(of: CollectorRegistry) -> str:
    return generate_latest(of).decode()


class _Kubelets(Nodes):
    """Nodes on which an engine serves when the fleet's worker does, and ends when that has ended."""

    def __init__(
        self,
        server: SimulatedCluster,
        gpus: dict[str, int],
        serves: Callable[[Manifest], bool],
        gone: Callable[[Manifest], bool],
    ) -> None:
        super().__init__(server, gpus)
        self._serves, self._gone = serves, gone

    def advance(self, pod: Manifest) -> bool:
        if "deletionTimestamp" in pod["metadata"]:
            return self._gone(pod) and super().advance(pod)
        if is_running(pod) and not self._serves(pod):
            return False
        return super().advance(pod)


class _Engines(Traffic):
    """The engines' own /metrics, by the pods' addresses."""

    def __init__(self, server: SimulatedCluster, page: Callable[[str], str | None]) -> None:
        super().__init__(server)
        self._page = page

    async def get(self, url: str, *, timeout: float) -> httpx.Response:  # noqa: ASYNC109 (httpx's own)
        text = self._page(url.removeprefix("http://").partition(":")[0])
        if text is None:
            raise httpx.ConnectError("no answer")
        return httpx.Response(200, text=text)


class _Counted(Promises):
    """Each write is counted as `main` counts it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def sent(self, process: OperatorProcess, write: Write) -> None:
        self._metrics.wrote(write.verb, write.kind)


class _MeasuredOperator(OperatorProcess):
    """The operator's process with its own metrics, filled as `main` fills them. A pass is timed by the wall clock."""

    def __init__(
        self,
        server: SimulatedCluster,
        traffic: Traffic,
        promises: Promises,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(server, traffic, promises, settings=Settings(), loop=loop)
        self._metrics = metrics
        reconcile = self._reconcile

        async def measured(key: ServiceKey) -> float | None:
            began, outcome = time.monotonic(), "failed"
            try:
                again = await reconcile(key)
                outcome = "done"
                return again
            except Unavailable:
                outcome = "unavailable"
                raise
            except ApiError:
                outcome = "refused"
                raise
            finally:
                metrics.reconciles.labels(outcome).inc()
                metrics.reconcile_seconds.observe(time.monotonic() - began)

        self._reconcile = measured  # type: ignore[assignment]

    def measure(self) -> None:
        services = [
            service for key in self.world.services() if (service := self.world.service(key)) is not None
        ]
        self._metrics.services.replace(services)
        self._metrics.known_services.set(len(services))
        self._metrics.pods.set(self.world.count(POD))
        self._metrics.queue_depth.set(len(self.queue))
