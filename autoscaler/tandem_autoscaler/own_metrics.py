"""The autoscaler's own metrics. Made from the latest decisions when asked, so that a deleted service leaves nothing."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tandem_autoscaler.loop import Autoscaler

_BY_ROLE = ["namespace", "service", "role"]
_BY_PROMISE = ["namespace", "service", "promise"]


class LatestDecisions:
    """A prometheus_client collector. Labels: one series per service and role, or service and promise."""

    def __init__(self, autoscaler: Autoscaler) -> None:
        self._autoscaler = autoscaler

    def collect(self) -> Iterator[Metric]:
        counts = self._autoscaler.counts
        for name, text, value in (
            ("ticks", "Ticks completed.", counts.ticks),
            ("failed_ticks", "Ticks without a result.", counts.failed_ticks),
            ("failed_services", "Services whose tick failed.", counts.failed_services),
            ("scale_writes", "Writes of a pool's scale.", counts.scale_writes),
            ("status_writes", "Writes of a service's status.", counts.status_writes),
            ("write_errors", "Writes that the API server refused.", counts.write_errors),
        ):
            yield CounterMetricFamily(f"tandem_autoscaler_{name}", text, value=value)
        yield GaugeMetricFamily(
            "tandem_autoscaler_tick_seconds", "Time of the last tick.", counts.last_tick_seconds
        )
        current = GaugeMetricFamily("tandem_autoscaler_replicas", "The pool's replicas.", labels=_BY_ROLE)
        target = GaugeMetricFamily("tandem_autoscaler_target_replicas", "The decision.", labels=_BY_ROLE)
        need = GaugeMetricFamily(
            "tandem_autoscaler_needed_replicas", "Workers needed by the model.", labels=_BY_ROLE
        )
        met = GaugeMetricFamily(
            "tandem_autoscaler_attainment_ratio", "Share within target.", labels=_BY_PROMISE
        )
        silent = GaugeMetricFamily(
            "tandem_autoscaler_silent_pods", "Pods that did not answer.", labels=["namespace", "service"]
        )
        for (namespace, name), entry in sorted(self._autoscaler.entries.items()):
            for role, decision in entry.outcome.decisions.items():
                current.add_metric([namespace, name, role], decision.current)
                target.add_metric([namespace, name, role], decision.target)
                if "need" in decision.numbers:
                    need.add_metric([namespace, name, role], decision.numbers["need"])
            for promise, kept in (("ttft", entry.outcome.ttft), ("tpot", entry.outcome.tpot)):
                if kept is not None and kept.attainment is not None:
                    met.add_metric([namespace, name, promise], kept.attainment)
            silent.add_metric([namespace, name], len(entry.snapshot.silent) if entry.snapshot else 0)
        yield from (current, target, need, met, silent)


def registry(autoscaler: Autoscaler) -> CollectorRegistry:
    """A registry with this collector alone."""
    found = CollectorRegistry()
    found.register(LatestDecisions(autoscaler))
    return found
