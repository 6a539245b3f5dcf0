"""One line of policies.json."""

from typing import Any

from tandem_autoscaler.benchmark.case import Case
from tandem_autoscaler.simulator.run import Result

Row = dict[str, Any]

KEYS = (
    "trace", "policy", "tuned", "cold_start_seconds", "seed",
    "ttft_attainment", "tpot_attainment", "joint_attainment", "infeasible_share",
    "gpu_hours_prefill", "gpu_hours_decode", "oracle_ratio", "goodput_per_gpu",
    "actions", "reversals", "minutes_in_violation",
)  # fmt: skip
"""What issue and readers rely on. Attainments are of the feasible requests, 0 to 1; `infeasible_share` of all.
`oracle_ratio`: GPU-hours against the cheapest hindsight first-come-first-served schedule found that attains as much;
null where none does or none was sought (see `suite.Selection`). `goodput_per_gpu`: requests that met both targets, per
second and GPU."""


def row(set_name: str, case: Case, result: Result, *, late_demotion: bool) -> Row:
    """Without an oracle ratio yet."""
    attained, trace = result.attainment, result.trace
    met = attained.goodput_per_second * (trace.duration_seconds - trace.warm_up_seconds)
    return {
        "trace": case.trace,
        "policy": case.policy,
        "tuned": case.tuned,
        "cold_start_seconds": case.cold_start_seconds,
        "seed": case.seed,
        "ttft_attainment": attained.ttft,
        "tpot_attainment": attained.tpot,
        "joint_attainment": attained.joint,
        "infeasible_share": attained.infeasible_share,
        "gpu_hours_prefill": result.gpu_hours_prefill,
        "gpu_hours_decode": result.gpu_hours_decode,
        "oracle_ratio": None,
        "goodput_per_gpu": met / (3600.0 * result.gpu_hours),
        "actions": result.counts.actions,
        "reversals": result.counts.reversals,
        "minutes_in_violation": attained.minutes_in_violation,
        "set": set_name,
        "constants": dict(case.constants),
        "router": case.router,
        "model_error": case.model_error,
        "outage": case.outage,
        "late_demotion": late_demotion,
    }


def gpu_hours(row: Row) -> float:
    return float(row["gpu_hours_prefill"] + row["gpu_hours_decode"])
