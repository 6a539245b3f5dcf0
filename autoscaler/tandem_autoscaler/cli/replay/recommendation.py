"""minReplicas and maxReplicas per role, from what our policy used where nothing held it back."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tandem_api import names
from tandem_autoscaler.cli.replay.play import Stage, play_without_limits
from tandem_autoscaler.simulator.run import LOG_COLUMNS, Result
from tandem_autoscaler.simulator.trace import Trace

ROLES = (names.PREFILL, names.DECODE)
# Of what our policy wanted. The first, unless the promise is broken with it: then the first that keeps it.
_PERCENTILES = (5, 50, 75, 90, 100)
# The load of the minute before an order is what it answers.
_BEFORE_SECONDS = 60.0


@dataclass(frozen=True)
class Range:
    """Of one role; `manifest` is what stands there now, `raised` says that the 5th percentile was too little."""

    role: str
    minimum: int
    maximum: int
    manifest: tuple[int, int]
    why: str
    raised: bool = False


@dataclass(frozen=True)
class Advice:
    """`held_back`: the manifest's limits did so. The rest is what our policy reaches within the ranges."""

    ranges: tuple[Range, ...]
    held_back: bool
    kept: bool  # both promises, for the share of requests that the manifest names
    joint_attainment: float
    gpu_hours: float
    infeasible_share: float


def recommend(stage: Stage, ours: Result | None) -> Advice:
    """`ours`: the run within the manifest's limits, where there was one. They count only if they changed it."""
    held_back = ours is None or _touches_limits(stage, ours)
    free = play_without_limits(stage, {}) if ours is None or held_back else ours
    minima, best = _minima(stage, free, ROLES, _PERCENTILES[0]), free
    raised: dict[str, int] = {}
    if short := _short_roles(stage, free):
        raised, best = _keeping(stage, free, short) or ({}, free)
    ranges = tuple(_range(stage, best, role, {**minima, **raised}[role], role in raised) for role in ROLES)
    return Advice(
        ranges=ranges,
        held_back=held_back and ours is not None,
        kept=not _short_roles(stage, best),
        joint_attainment=best.attainment.joint,
        gpu_hours=best.gpu_hours,
        infeasible_share=best.attainment.infeasible_share,
    )


def _short_roles(stage: Stage, result: Result) -> tuple[str, ...]:
    """The roles whose promise is broken."""
    kept = {names.PREFILL: result.attainment.ttft, names.DECODE: result.attainment.tpot}
    return tuple(role for role in ROLES if kept[role] < stage.wish.targets.quantile)


def _keeping(stage: Stage, free: Result, short: tuple[str, ...]) -> tuple[dict[str, int], Result] | None:
    """The least minima of the `short` roles that keep the promises, and their run; None if none do.

    What they let through may find the other role too small, for first tokens also wait for room in decode: where none
    is enough, the other role gets a minimum too, by what it wanted beside the most of these.
    """
    run, most = _once(stage), _PERCENTILES[-1]
    found = _least_level(stage, run, free, short, {})
    others = tuple([role for role in ROLES if role not in short])
    if found is not None or not others:
        return found
    enough = run(_minima(stage, free, short, most))
    found = _least_level(stage, run, free, short, _minima(stage, enough, others, most))
    if found is None:
        return None
    raised, _ = found
    return _least_level(stage, run, enough, others, {role: raised[role] for role in short}) or found


def _once(stage: Stage) -> Callable[[dict[str, int]], Result]:
    """Ours with these minima. The searches ask for some of them twice, and a run of a day takes many seconds."""

    @cache
    def run(minima: frozenset[tuple[str, int]]) -> Result:
        return play_without_limits(stage, dict(minima))

    return lambda minima: run(frozenset(minima.items()))


def _least_level(
    stage: Stage, run: Callable[[dict[str, int]], Result], free: Result, roles: tuple[str, ...], beside: dict[str, int]
) -> tuple[dict[str, int], Result] | None:  # fmt: skip
    """The minima of the least percentile of what these `roles` wanted that keeps the promises, those `beside` them
    included, and their run; None if none does."""
    levels = [_minima(stage, free, roles, percentile) | beside for percentile in _PERCENTILES[1:]]
    low, high, found = 0, len(levels), None
    while low < high:
        middle = (low + high) // 2
        tried = run(levels[middle])
        if _short_roles(stage, tried):
            low = middle + 1
        else:
            high, found = middle, (levels[middle], tried)
    return found


def targets(result: Result, role: str) -> NDArray[np.int64]:
    """(k,) replicas asked for, per tick."""
    return np.asarray(result.log[:, LOG_COLUMNS.index(f"{role}_target")], dtype=np.int64)


def _touches_limits(stage: Stage, ours: Result) -> bool:
    gpus = np.zeros(len(ours.log))
    for role, pool in stage.service.pools.items():
        wanted = targets(ours, role)
        if (wanted >= pool.maximum).any() or (pool.minimum > 1 and (wanted <= pool.minimum).any()):
            return True
        gpus += wanted * pool.gpus
    budget = stage.service.gpu_budget
    smallest = min(pool.gpus for pool in stage.service.pools.values())
    return budget is not None and bool((gpus + smallest > budget).any())


def _counted(stage: Stage, result: Result, role: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """When, and how many replicas were wanted, the warm-up apart."""
    counted = result.log[:, 0] >= stage.trace.warm_up_seconds
    return result.log[counted, 0], targets(result, role)[counted]


def _minima(stage: Stage, result: Result, roles: tuple[str, ...], percentile: int) -> dict[str, int]:
    """The `percentile` of the replicas that these `roles` wanted."""
    return {
        role: int(np.percentile(_counted(stage, result, role)[1], percentile, method="lower"))
        for role in roles
    }


def _range(stage: Stage, result: Result, role: str, minimum: int, raised: bool) -> Range:
    at, wanted = _counted(stage, result, role)
    highest = int(wanted.argmax())
    manifest = stage.wish.spec.roles[role]
    return Range(
        role,
        minimum,
        int(wanted[highest]),
        (manifest.min_replicas, manifest.max_replicas),
        _why(stage.trace, float(at[highest]), role),
        raised=raised,
    )


def _why(trace: Trace, at_seconds: float, role: str) -> str:
    """The load before the moment of most replicas."""
    recent = (trace.arrival >= at_seconds - _BEFORE_SECONDS) & (trace.arrival < at_seconds)
    moment = f"{int(at_seconds // 3600)}:{int(at_seconds // 60 % 60):02d} h"
    seconds = min(_BEFORE_SECONDS, at_seconds) or 1.0
    kind, tokens = ("prompt", trace.prompt) if role == names.PREFILL else ("output", trace.output)
    return (
        f"most at {moment}, after {recent.sum() / seconds:.1f} requests/s with "
        f"{tokens[recent].sum() / seconds:,.0f} {kind} tokens/s"
    )
