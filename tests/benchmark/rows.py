"""Rows of policies.json made by hand."""

from typing import Any

from tandem_autoscaler.benchmark.row import Row


def made(
    policy: str, joint: float, hours: float, *, seed: int = 1, trace: str = "step-x4", **changes: Any
) -> Row:
    return {
        "trace": trace,
        "policy": policy,
        "tuned": False,
        "cold_start_seconds": 40.0,
        "seed": seed,
        "ttft_attainment": joint,
        "tpot_attainment": 1.0,
        "joint_attainment": joint,
        "infeasible_share": 0.0,
        "gpu_hours_prefill": 0.6 * hours,
        "gpu_hours_decode": 0.4 * hours,
        "oracle_ratio": None,
        "goodput_per_gpu": joint / hours,
        "actions": 3,
        "reversals": 1,
        "minutes_in_violation": 0.0,
        "set": "main",
        "constants": {},
        "router": "least_work",
        "model_error": 0.0,
        "outage": "",
        "late_demotion": False,
        **changes,
    }
