"""The autoscaler's own metrics, told in docs/metrics.md.

Made from the latest decisions when asked, so that a deleted service leaves nothing behind and a standby, which decides
nothing, tells of none. What is not known has no series: unknown is never zero.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from tandem_api.reasons import Condition
from tandem_autoscaler.decide.decision import Verdict
from tandem_autoscaler.loop import Autoscaler, Entry

_OF_SERVICE = ["namespace", "service"]
_OF_ROLE = [*_OF_SERVICE, "role"]
_OF_PROMISE = [*_OF_SERVICE, "promise"]


class LatestDecisions:
    """A prometheus_client collector. Labels: one series per service and role, or service and promise."""

    def __init__(self, autoscaler: Autoscaler, leading: Callable[[], bool]) -> None:
        self._autoscaler = autoscaler
        self._leading = leading

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "tandem_autoscaler_leader", "1 while this process holds the lease.", float(self._leading())
        )
        if self._autoscaler.gpu_budget is not None:
            yield GaugeMetricFamily(
                "tandem_autoscaler_gpu_budget", "GPUs of all services together.", self._autoscaler.gpu_budget
            )
        yield from self._of_the_loop()
        entries = self._autoscaler.entries
        yield from _of_roles(entries)
        yield from _of_promises(entries)
        yield from _of_services(entries)

    def _of_the_loop(self) -> Iterator[Metric]:
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
        yield SummaryMetricFamily(
            "tandem_autoscaler_tick_seconds",
            "Duration of a tick, failed ones included.",
            count_value=counts.timed_ticks,
            sum_value=counts.tick_seconds,
        )


def _of_roles(entries: Mapping[tuple[str, str], Entry]) -> Iterator[Metric]:
    current = GaugeMetricFamily("tandem_autoscaler_replicas", "The pool's replicas.", labels=_OF_ROLE)
    target = GaugeMetricFamily("tandem_autoscaler_target_replicas", "The decision.", labels=_OF_ROLE)
    need = GaugeMetricFamily("tandem_autoscaler_needed_replicas", "Needed by the model.", labels=_OF_ROLE)
    least = GaugeMetricFamily("tandem_autoscaler_min_replicas", "minReplicas.", labels=_OF_ROLE)
    most = GaugeMetricFamily("tandem_autoscaler_max_replicas", "maxReplicas.", labels=_OF_ROLE)
    why = GaugeMetricFamily(
        "tandem_autoscaler_decision", "1, with the present reason.", labels=[*_OF_ROLE, "reason"]
    )
    for key, entry in sorted(entries.items()):
        for role, decision in entry.outcome.decisions.items():
            of_role = [*key, role]
            pool = entry.service.pools[role]
            current.add_metric(of_role, decision.current)
            target.add_metric(of_role, decision.target)
            least.add_metric(of_role, pool.minimum)
            most.add_metric(of_role, pool.maximum)
            why.add_metric([*of_role, decision.why.value], 1)
            if "need" in decision.numbers:
                need.add_metric(of_role, decision.numbers["need"])
    yield from (current, target, need, least, most, why)


def _of_promises(entries: Mapping[tuple[str, str], Entry]) -> Iterator[Metric]:
    aim = GaugeMetricFamily("tandem_autoscaler_target_seconds", "The promise.", labels=_OF_PROMISE)
    tail = GaugeMetricFamily(
        "tandem_autoscaler_tail_seconds", "At slo.percentile, over the last minute.", labels=_OF_PROMISE
    )
    met = GaugeMetricFamily(
        "tandem_autoscaler_attainment_ratio",
        "Share of the last minute's requests that were surely within the target.",
        labels=_OF_PROMISE,
    )
    allowance = GaugeMetricFamily(
        "tandem_autoscaler_allowance_ratio", "Share of requests that may miss it.", labels=_OF_SERVICE
    )
    for key, entry in sorted(entries.items()):
        targets = entry.service.targets
        if targets is not None:
            aim.add_metric([*key, "ttft"], targets.ttft_seconds)
            aim.add_metric([*key, "tpot"], targets.tpot_seconds)
            allowance.add_metric(key, targets.allowance)
        for promise, kept in (("ttft", entry.outcome.ttft), ("tpot", entry.outcome.tpot)):
            if kept is not None and kept.tail_seconds is not None:
                tail.add_metric([*key, promise], kept.tail_seconds)
            if kept is not None and kept.attainment is not None:
                met.add_metric([*key, promise], kept.attainment)
    yield from (aim, tail, met, allowance)


def _of_services(entries: Mapping[tuple[str, str], Entry]) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        "tandem_autoscaler_scaling_active",
        "Condition ScalingActive: 1 True, 0 False.",
        labels=[*_OF_SERVICE, "reason"],
    )
    attained = GaugeMetricFamily(
        "tandem_autoscaler_slo_met", "Condition SLOMet: 1 True, 0 False.", labels=_OF_SERVICE
    )
    silent = GaugeMetricFamily(
        "tandem_autoscaler_silent_pods", "Pods that did not answer.", labels=_OF_SERVICE
    )
    for key, entry in sorted(entries.items()):
        conditions = entry.outcome.conditions
        verdict = conditions.get(Condition.SCALING_ACTIVE)
        if verdict is not None and (value := _value(verdict)) is not None:
            active.add_metric([*key, verdict.reason.value], value)
        verdict = conditions.get(Condition.SLO_MET)
        if verdict is not None and (value := _value(verdict)) is not None:
            attained.add_metric(key, value)
        if entry.snapshot is not None:
            silent.add_metric(key, len(entry.snapshot.silent))
    yield from (active, attained, silent)


def _value(verdict: Verdict) -> float | None:
    return {"True": 1.0, "False": 0.0}.get(verdict.status)


def registry(autoscaler: Autoscaler, *, leading: Callable[[], bool]) -> CollectorRegistry:
    """A registry with this collector alone."""
    found = CollectorRegistry()
    found.register(LatestDecisions(autoscaler, leading))
    return found
