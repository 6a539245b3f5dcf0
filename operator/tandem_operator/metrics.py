"""The operator's own metrics. No label has a service's name: their number must not grow with the fleet."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tandem_api.kubernetes.cluster import Kind


class Metrics:
    """One registry per process, so that tests may have several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leading = Gauge(
            "tandem_operator_leading", "1 while this process holds the lease.", registry=self.registry
        )
        self.services = Gauge("tandem_operator_services", "InferenceServices known.", registry=self.registry)
        self.workers = Gauge(
            "tandem_operator_pods", "Managed pods known, routers included.", registry=self.registry
        )
        self.queued = Gauge(
            "tandem_operator_queue_length", "Services that wait for a look.", registry=self.registry
        )
        self.passes = Counter(
            "tandem_operator_passes_total",
            "Reconcile passes by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.pass_seconds = Histogram(
            "tandem_operator_pass_seconds",
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

    def wrote(self, verb: str, kind: Kind) -> None:
        self.writes.labels(verb, kind.plural).inc()
