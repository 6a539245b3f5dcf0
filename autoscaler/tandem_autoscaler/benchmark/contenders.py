"""Who takes part: the baselines, NVIDIA's own planner where it can be installed, and ours."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from tandem_autoscaler.benchmark.dynamo.environment import Unavailable, planner_command
from tandem_autoscaler.simulator.policies.baselines import BASELINES, Contender
from tandem_autoscaler.simulator.policies.dynamo import DynamoPolicy
from tandem_autoscaler.simulator.policies.dynamo_process import PlannerProcess
from tandem_autoscaler.simulator.policies.policy import Policy
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.tandem import TandemPolicy
from tandem_autoscaler.simulator.trace import Trace

OURS = "tandem"
DYNAMO = "dynamo"
STATIC = "static"


@cache
def contenders() -> dict[str, Contender]:
    everyone = dict(BASELINES)
    return everyone | {contender.name: contender for contender in (_DYNAMO, *_OURS)}


def unavailable(name: str) -> str | None:
    """Why this contender cannot run on this machine, in one sentence; None: it can."""
    if name != DYNAMO:
        return None
    try:
        planner_command()
    except Unavailable as error:
        return str(error)
    return None


def _ours(trace: Trace, profile: Profile, **constants: Any) -> Policy:
    """It is told neither the hardware's times nor the trace."""
    return TandemPolicy(**constants)


_running: list[PlannerProcess] = []


def _planner() -> PlannerProcess:
    """One planner per process of ours; another when it has died."""
    if not _running or not _running[0].close.alive:
        _running[:] = [PlannerProcess(planner_command())]
    return _running[0]


def _dynamo(trace: Trace, profile: Profile, **constants: Any) -> Policy:
    """`strictness` divides both targets that the planner is told: the dial that it leaves to its operator."""
    strictness = constants.pop("strictness", 1.0)
    return DynamoPolicy(
        _planner(),
        hardware=profile.hardware,
        ttft_seconds=profile.ttft_seconds / strictness,
        tpot_seconds=profile.tpot_seconds / strictness,
        **constants,
    )


_DYNAMO = Contender(
    DYNAMO,
    _dynamo,
    {"mode": "both", "interval_seconds": 180},
    (
        {"mode": "both", "interval_seconds": 180},
        {"mode": "both", "interval_seconds": 60},
        {"mode": "both", "interval_seconds": 60, "strictness": 1.5},
        {"mode": "both", "interval_seconds": 60, "strictness": 2.5},
    ),
    uses_model=True,
)

_LEVERS = {"late_demotion": True, "undrain": True, "flips": True}
_QUANTILES = tuple({"demand_quantile": q} for q in (0.5, 0.65, 0.85, 0.92, 0.97))
_DEFAULT = {"demand_quantile": 0.85}


def _without(what: str, levers: Mapping[str, Any], **constants: Any) -> Contender:
    return Contender(f"{OURS}-without-{what}", _ours, {**_DEFAULT, **constants}, (), levers, uses_model=True)


# Ours, and ours without one lever each.
_OURS = (
    Contender(OURS, _ours, _DEFAULT, _QUANTILES, _LEVERS, uses_model=True),
    _without("demotion", {"undrain": True, "flips": True}),
    _without("undrain", {"late_demotion": True, "flips": True}),
    _without("flips", {"late_demotion": True, "undrain": True}),
    _without("levers", {}),
    _without("forecast", _LEVERS, headroom=0.25),
)
