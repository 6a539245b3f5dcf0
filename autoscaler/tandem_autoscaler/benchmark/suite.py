"""Which cases make up the benchmark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tandem_autoscaler.benchmark.case import OUTAGES, Case
from tandem_autoscaler.benchmark.contenders import DYNAMO, OURS, STATIC, contenders
from tandem_autoscaler.simulator.policies.baselines import Constants

HOURS = (
    "azure-conv-2023",
    "azure-code-2023",
    "mooncake-conv",
    "dynamo-sine",
    "step-x4",
    "mix-shift",
    "bursty-diurnal",
)
DAYS = ("azure-conv-2024", "servegen-deepseek-r1")
TRACES = HOURS + DAYS
SETS = ("main", "cold", "model-error", "outages", "routers", "ablation")

COLD_STARTS = (10.0, 120.0, 300.0)
MODEL_ERRORS = (-0.35, -0.2, 0.2, 0.35)
ROUTERS = ("power_of_two", "round_robin", "random")
TUNING_SEEDS = (101,)
# A day of a tuning seed is represented by the hours around its peak.
TUNING_PART_SECONDS = 4 * 3600.0

# All seeds of the hours where the competition is close; of the others, enough to see how far behind they are.
_HOUR_SEEDS = dict.fromkeys(
    (DYNAMO, "keda", "aibrix_apa", "wva_saturation", "wva_saturation_v1", "wva_queueing", "tokenscale", "heteroscale",
     "hpa+demotion", "kpa+demotion"),
    3,
)  # fmt: skip
# The best fixed fleet is sought by some fifteen runs.
_BEST_STATIC_SEEDS, _BEST_STATIC_DAY_SEEDS = 3, 1
# How many seeds of the hours have the whole grid, for the lines of the pictures and for the comparison at equal
# attainment: more where the competition is close.
_SWEPT_SEEDS = {
    "constant_headroom": 3,
    "constant_headroom+levers": 5,
    OURS: 1,
    "static": 1,
    "hpa": 1,
    "kpa": 1,
    "oracle_model": 1,
}
# On the days only these, with their defaults where tuning would take longest.
_DAY_POLICIES = (
    OURS,
    DYNAMO,
    STATIC,
    "hpa",
    "kpa",
    "constant_headroom",
    "constant_headroom+levers",
    "oracle_model",
)  # fmt: skip
_DAYS_UNTUNED = (DYNAMO, "hpa", "kpa")
# A second day for ours and its nearest competitor only: a run takes up to a minute.
_DAY_SEEDS = dict.fromkeys(_DAY_POLICIES, 1) | {OURS: 2, "constant_headroom+levers": 2}

# In the sets beside the main one: ours and the strongest or best known others.
_FEW = (OURS, "constant_headroom", "constant_headroom+levers", "kpa", "hpa")
_FEW_TRACES = ("azure-conv-2023", "mix-shift", "bursty-diurnal")


@dataclass(frozen=True)
class Selection:
    """What of the benchmark is to be run."""

    traces: tuple[str, ...] = TRACES
    policies: tuple[str, ...] = ()  # empty: all
    sets: tuple[str, ...] = SETS
    seeds: int = 5
    day_seeds: int = 2
    few_seeds: int = 1  # in the sets beside the main one
    sweep_seeds: int = 5  # at most
    hindsight_seeds: int = 2  # the search takes longest; on a day one seed is sought
    cold_starts: tuple[float, ...] = COLD_STARTS

    def takes_part(self, policy: str) -> bool:
        return not self.policies or policy in self.policies

    def hindsight_seeds_of(self, trace: str) -> range:
        return range(1, 1 + min(len(self.seeds_of(trace)), 1 if trace in DAYS else self.hindsight_seeds))

    def seeds_of(self, trace: str) -> range:
        return range(1, 1 + (self.day_seeds if trace in DAYS else self.seeds))


@dataclass(frozen=True)
class Job:
    set_name: str
    case: Case


def simulation(case: Case) -> Case:
    """What has to be simulated for a case: constants that were tuned and published ones may be the same."""
    return case if is_best_static(case) else replace(case, tuned=False)


Tuned = Mapping[tuple[str, str], Constants]
"""(trace, policy) -> constants chosen on the tuning seeds"""


def is_best_static(case: Case) -> bool:
    """The cheapest fixed fleet that keeps the promise, to be sought on the very trace that is reported."""
    return case.policy == STATIC and case.tuned


def tuning_cases(selection: Selection) -> list[Case]:
    """Every constant of the grids on a seed that is never reported.

    A fixed fleet is chosen in hindsight instead, and ours is reported with its defaults only.
    """
    return [
        Case(
            trace, name, seed=seed, around_peak_seconds=TUNING_PART_SECONDS if trace in DAYS else None
        ).with_constants(constants, tuned=False)
        for trace in selection.traces
        for name, contender in contenders().items()
        if selection.takes_part(name) and name not in (STATIC, OURS) and _on(trace, name)
        if trace not in DAYS or name not in _DAYS_UNTUNED
        for seed in TUNING_SEEDS
        for constants in contender.grid
    ]


def _on(trace: str, policy: str) -> bool:
    return trace not in DAYS or policy in _DAY_POLICIES


def jobs(selection: Selection, tuned: Tuned) -> list[Job]:
    """Without repetition; the longest first."""
    made: dict[tuple[str, Case], Job] = {}
    for set_name in selection.sets:
        for case in _SETS[set_name](selection, tuned):
            if selection.takes_part(case.policy):
                made.setdefault((set_name, case), Job(set_name, case))
    return sorted(made.values(), key=lambda job: (job.case.trace not in DAYS, job.case.policy != DYNAMO))


def sweep_jobs(selection: Selection, made: Iterable[Job]) -> list[Job]:
    """The grids on reported seeds, without what is `made` already."""
    known = {simulation(job.case) for job in made}
    cases = (
        Case(trace, name, seed=seed).with_constants(constants, tuned=False)
        for trace in selection.traces
        if trace not in DAYS
        for name, seeds in _SWEPT_SEEDS.items()
        if selection.takes_part(name)
        for seed in range(1, 1 + min(seeds, selection.sweep_seeds, selection.seeds))
        for constants in contenders()[name].grid
    )
    return [Job("sweep", case) for case in cases if case not in known]


def _both(case: Case, tuned: Tuned) -> Iterable[Case]:
    """With the defaults, and with the tuned constants where there are any."""
    yield case.with_constants(contenders()[case.policy].default, tuned=False)
    chosen = tuned.get((case.trace, case.policy))
    if case.policy == STATIC:
        if case.seed <= (_BEST_STATIC_DAY_SEEDS if case.trace in DAYS else _BEST_STATIC_SEEDS):
            yield case.with_constants({}, tuned=True)
    elif chosen is not None:
        yield case.with_constants(chosen, tuned=True)


def _best(case: Case, tuned: Tuned) -> Case:
    """Others as they were tuned for the usual conditions of this trace, ours with its defaults."""
    chosen = tuned.get((case.trace, case.policy))
    if chosen is None or case.policy == OURS:
        return case.with_constants(contenders()[case.policy].default, tuned=False)
    return case.with_constants(chosen, tuned=True)


def _main(selection: Selection, tuned: Tuned) -> Iterable[Case]:
    for trace in selection.traces:
        for seed in selection.seeds_of(trace):
            for name in contenders():
                if name.startswith(f"{OURS}-") or not _on(trace, name):
                    continue
                if seed <= (_DAY_SEEDS if trace in DAYS else _HOUR_SEEDS).get(name, seed):
                    yield from _both(Case(trace, name, seed=seed), tuned)


def _beside(selection: Selection, traces: Sequence[str], policies: Iterable[str]) -> Iterable[Case]:
    names = list(policies)
    for trace in selection.traces:
        if trace in traces:
            for seed in range(1, 1 + min(selection.few_seeds, selection.seeds)):
                yield from (Case(trace, name, seed=seed) for name in names if name in contenders())


def _cold(selection: Selection, tuned: Tuned) -> Iterable[Case]:
    for case in _beside(selection, HOURS, _FEW):
        for seconds in selection.cold_starts:
            yield _best(replace(case, cold_start_seconds=seconds), tuned)


def _model_error(selection: Selection, tuned: Tuned) -> Iterable[Case]:
    for case in _beside(selection, _FEW_TRACES, (name for name in _FEW if contenders_with_model(name))):
        for error in MODEL_ERRORS:
            yield _best(replace(case, model_error=error), tuned)


def contenders_with_model(name: str) -> bool:
    return name in contenders() and contenders()[name].uses_model


def _outages(selection: Selection, tuned: Tuned) -> Iterable[Case]:
    for case in _beside(selection, _FEW_TRACES, _FEW):
        for outage in OUTAGES:
            if outage:
                yield _best(replace(case, outage=outage), tuned)


def _routers(selection: Selection, tuned: Tuned) -> Iterable[Case]:
    for case in _beside(selection, _FEW_TRACES, _FEW):
        for router in ROUTERS:
            yield _best(replace(case, router=router), tuned)


def _ablation(selection: Selection, tuned: Tuned) -> Iterable[Case]:
    """Ours without each of its levers."""
    for case in _beside(selection, HOURS, (name for name in contenders() if name.startswith(OURS))):
        yield case.with_constants(contenders()[case.policy].default, tuned=False)


_SETS = {
    "main": _main,
    "cold": _cold,
    "model-error": _model_error,
    "outages": _outages,
    "routers": _routers,
    "ablation": _ablation,
}
