"""The conditions that the autoscaler owns, as values."""

from collections.abc import Mapping, Sequence

from tandem_api.durations import format_seconds
from tandem_api.reasons import Condition, Reason
from tandem_autoscaler.decide.decision import Kept, Quality, Verdict
from tandem_autoscaler.decide.need_prefill import Need
from tandem_autoscaler.decide.quality import RoleCount
from tandem_autoscaler.fleet.service import Service, Targets
from tandem_autoscaler.signals.source import Snapshot

# So many ticks without a series that we know are no start-up any more.
UNMATCHED_TICKS = 6


def not_sizing(service: Service, kept: tuple[Kept | None, Kept | None]) -> dict[str, Verdict]:
    """Conditions of a service that is not sized here: someone else's, paused, or fixed."""
    if service.mode == "Off":
        active = Verdict(
            "False", Reason.SCALING_OFF, "autoscaling.mode is Off: replicas are fixed in the spec"
        )
    elif service.mode == "External":
        text = "autoscaling.mode is External: an HPA, KEDA or a person owns the pools"
        active = Verdict("False", Reason.SCALING_EXTERNAL, text)
    elif service.paused:
        active = Verdict("False", Reason.SCALING_PAUSED, "paused by annotation")
    else:
        active = Verdict("False", Reason.INVALID_SPEC, "there are no targets: set slo.ttft and slo.tpot")
    conditions: dict[str, Verdict] = {Condition.SCALING_ACTIVE: active}
    if service.targets is not None:
        idle = all(k is None or k.attainment_upper is None for k in kept)
        conditions[Condition.SLO_MET] = slo_met(service.targets, kept, idle, [])
    return conditions


def scaling_active(
    service: Service, snapshot: Snapshot, counts: Mapping[str, RoleCount], qualities: Mapping[str, Quality],
    unmatched_ticks: int,
) -> Verdict:  # fmt: skip
    """Can decisions be made, and if not, what is missing."""
    if snapshot.error is not None:
        return Verdict("False", Reason.PROMETHEUS_UNREACHABLE, snapshot.error)
    if not service.pools:
        return Verdict("Unknown", Reason.WAITING_FOR_DATA, "the worker pools do not exist yet")
    if unmatched_ticks >= UNMATCHED_TICKS:
        text = "workers answer, but with none of the expected series"
        return Verdict("False", Reason.NO_SERIES_MATCHED, text)
    if all(counted.ready == 0 for counted in counts.values()):
        return Verdict("Unknown", Reason.WAITING_FOR_DATA, "no worker is ready yet")
    for role, quality in qualities.items():
        if quality is Quality.BLIND:
            return Verdict("False", Reason.NO_METRICS, f"no {role} worker answers{_first(snapshot)}")
        if quality is Quality.STALE:
            return Verdict(
                "False", Reason.STALE_METRICS, f"no {role} worker has answered lately{_first(snapshot)}"
            )
    if service.mode == "Recommend":
        return Verdict("True", Reason.RECOMMEND_ONLY, "decisions are written to status only")
    return Verdict("True", Reason.METRICS_OK, "sized from the workers' own metrics")


def _first(snapshot: Snapshot) -> str:
    """One of the reasons, without what changes from tick to tick."""
    silent = sorted(set(snapshot.silent.values()))
    return f" ({silent[0]})" if silent else ""


def scaling_limited(service: Service, wished: Mapping[str, int | None], over_budget: str | None) -> Verdict:
    """Is the need outside what the limits allow."""
    if over_budget is not None:
        return Verdict("True", Reason.GPU_BUDGET_EXCEEDED, over_budget)
    for role, pool in service.pools.items():
        need = wished.get(role)
        if need is not None and need > pool.maximum:
            return Verdict(
                "True", Reason.TOO_FEW_REPLICAS, f"{role} needs more than maxReplicas {pool.maximum}"
            )
    for role, pool in service.pools.items():
        need = wished.get(role)
        # At a minimum of one an idle service is no news.
        if need is not None and max(need, 1) < pool.minimum:
            return Verdict(
                "True", Reason.TOO_MANY_REPLICAS, f"{role} needs fewer than minReplicas {pool.minimum}"
            )
    return Verdict("False", Reason.WITHIN_LIMITS, "the need lies within the limits")


def slo_met(
    targets: Targets, kept: tuple[Kept | None, Kept | None], idle: bool, needs: Sequence[Need]
) -> Verdict:
    """Were the promises kept over the last minute."""
    ttft, tpot = kept
    for need, reason in zip(needs, (Reason.TTFT_INFEASIBLE, Reason.TPOT_INFEASIBLE), strict=False):
        if not need.feasible:
            return Verdict("False", reason, need.infeasible_because)
    measured = [(name, k) for name, k in (("TTFT", ttft), ("TPOT", tpot)) if k is not None]
    known = [(name, k) for name, k in measured if k.attainment is not None]
    if not known:
        if idle:
            return Verdict("Unknown", Reason.NO_TRAFFIC, "no request in the last minute")
        return Verdict("Unknown", Reason.WAITING_FOR_DATA, "too little measured in the last minute")
    percentile = f"p{targets.quantile * 100:g}"
    missed = [
        f"{name} {percentile} above {format_seconds(k.target_seconds)}"
        for name, k in known
        if (k.attainment_upper if k.attainment_upper is not None else 0.0) < targets.quantile
    ]
    if missed:
        return Verdict("False", Reason.SLO_MISSED, "; ".join(missed))
    if all((k.attainment or 0.0) >= targets.quantile for _, k in known):
        return Verdict("True", Reason.SLO_ATTAINED, f"{percentile} of TTFT and TPOT within their targets")
    # Between the bounds of a coarse bucket: not known to be missed.
    return Verdict("True", Reason.SLO_ATTAINED, f"{percentile} within the targets as far as the buckets tell")
