"""The operator's own metrics, told in docs/metrics.md.

Two kinds: what this process does (no label has a service's name), and what it last observed of each service, one series
per service, role and state. The second kind is made anew from the services that exist, so that one that was deleted
leaves nothing behind, and what is not known yet has no series: unknown is never zero.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from tandem_api.kubernetes.cluster import Kind, Manifest
from tandem_api.reasons import Condition

_OF_SERVICE = ["namespace", "service"]
_OF_ROLE = [*_OF_SERVICE, "role"]
# Workers that serve, that do not serve yet, and that have left the router.
_STATES = ("ready", "starting", "draining")


class Services:
    """A collector over the services' own statuses. `replace` may be called from another thread than `collect`."""

    def __init__(self) -> None:
        self._services: tuple[Manifest, ...] = ()

    def replace(self, services: Iterable[Manifest]) -> None:
        """Tell of these InferenceServices and of no others."""
        self._services = tuple(services)

    def collect(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("tandem_operator_service_ready", "1 while it serves.", labels=_OF_SERVICE)
        wanted = GaugeMetricFamily("tandem_operator_desired_workers", "Workers wanted.", labels=_OF_ROLE)
        workers = GaugeMetricFamily(
            "tandem_operator_workers", "Workers that exist, by state.", labels=[*_OF_ROLE, "state"]
        )
        gpus = GaugeMetricFamily("tandem_operator_gpus", "GPUs committed.", labels=_OF_SERVICE)
        budget = GaugeMetricFamily("tandem_operator_gpu_budget", "spec.gpuBudget.", labels=_OF_SERVICE)
        for service in self._services:
            key = [str(service["metadata"].get("namespace") or ""), str(service["metadata"]["name"])]
            status = service.get("status") or {}
            for condition in status.get("conditions") or []:
                if condition.get("type") == Condition.READY and condition.get("status") != "Unknown":
                    ready.add_metric(key, float(condition.get("status") == "True"))
            for role, counted in sorted((status.get("roles") or {}).items()):
                if "desired" in counted:
                    wanted.add_metric([*key, role], counted["desired"])
                for state in _STATES:
                    if state in counted:
                        workers.add_metric([*key, role, state], counted[state])
            held = status.get("gpus") or {}
            if "used" in held:
                gpus.add_metric(key, held["used"])
            if "budget" in held:
                budget.add_metric(key, held["budget"])
        yield from (ready, wanted, workers, gpus, budget)


class Metrics:
    """One registry per process, so that tests may have several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leader = Gauge(
            "tandem_operator_leader", "1 while this process holds the lease.", registry=self.registry
        )
        self.known_services = Gauge(
            "tandem_operator_services", "InferenceServices known.", registry=self.registry
        )
        self.pods = Gauge(
            "tandem_operator_pods", "Managed pods known, routers included.", registry=self.registry
        )
        self.queue_depth = Gauge(
            "tandem_operator_queue_depth",
            "Services that have an appointment for a look, due or not.",
            registry=self.registry,
        )
        self.reconciles = Counter(
            "tandem_operator_reconciles_total",
            "Reconcile passes by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "tandem_operator_reconcile_seconds",
            "Duration of a pass, engines and API server included.",
            buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
            registry=self.registry,
        )
        self.writes = Counter(
            "tandem_operator_writes_total",
            "Writes to the API server.",
            ["verb", "resource"],
            registry=self.registry,
        )
        self.services = Services()
        self.registry.register(self.services)

    def wrote(self, verb: str, kind: Kind) -> None:
        self.writes.labels(verb, kind.plural).inc()
