"""One run of the benchmark: a trace and its fleet, a policy with its constants, and what goes wrong meanwhile."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tandem_autoscaler.simulator.catalogue import SCENARIOS, Scenario, hardware
from tandem_autoscaler.simulator.fleet import FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.run import Outages
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces import named

# Every fleet has a limit, as every manifest has a maxReplicas: without one, rules that count queued requests order
# hundreds of workers for a queue that new workers cannot take over.
MOST_WORKERS = 48  # per role; the busiest minute of any trace needs 36
# The metric source falls silent this long, twice, a quarter and six tenths into the trace; or every other half minute.
OUTAGES = {"": 0.0, "1 min": 60.0, "5 min": 300.0, "15 min": 900.0, "flapping": 30.0}


@dataclass(frozen=True)
class Case:
    """`model_error` e: the fleet's times are (1 + e) of those that whoever wrote the policy's constants believes."""

    trace: str
    policy: str
    constants: tuple[tuple[str, Any], ...] = ()
    tuned: bool = False
    seed: int = 1
    cold_start_seconds: float = 40.0
    router: str = "least_work"
    model_error: float = 0.0
    outage: str = ""
    around_peak_seconds: float | None = None  # only so much of the trace, with its busiest hour in the middle

    @property
    def scenario(self) -> Scenario:
        return SCENARIOS[self.trace]

    def with_constants(self, constants: Mapping[str, Any], *, tuned: bool) -> "Case":
        return replace(self, constants=tuple(sorted(constants.items())), tuned=tuned)


@dataclass(frozen=True)
class Stage:
    """What a case runs on."""

    trace: Trace
    hardware: Hardware
    believed: Profile
    settings: FleetSettings
    outages: Outages | None


@lru_cache(maxsize=3)
def _trace(name: str, seed: int, scale: float | None, around_peak_seconds: float | None) -> Trace:
    trace = named(name, seed, scale=scale)
    return trace if around_peak_seconds is None else around_peak(trace, around_peak_seconds)


def around_peak(trace: Trace, seconds: float) -> Trace:
    """`seconds` of the trace with the hour of most arrivals in their middle, as far as the trace reaches."""
    if seconds >= trace.duration_seconds:
        return trace
    hours = np.arange(0.0, trace.duration_seconds, 3600.0)
    busiest = hours[np.histogram(trace.arrival, bins=[*hours, np.inf])[0].argmax()] + 1800.0
    start = min(max(0.0, busiest - seconds / 2.0), trace.duration_seconds - seconds)
    part = slice(*np.searchsorted(trace.arrival, [start, start + seconds]))
    return replace(
        trace,
        arrival=trace.arrival[part] - start,
        prompt=trace.prompt[part],
        output=trace.output[part],
        duration_seconds=seconds,
    )


def stage(case: Case, levers: Mapping[str, Any]) -> Stage:
    """`levers`: fields of FleetSettings."""
    scenario = case.scenario
    trace = _trace(case.trace, case.seed, scenario.scale, case.around_peak_seconds)
    believed = hardware(scenario.hardware)
    factor = 1.0 + case.model_error
    (a, b, c), (d0, d1, d2) = believed.prefill, believed.decode
    real = replace(
        believed,
        prefill=(factor * a, factor * b, factor * c),
        decode=(factor * d0, factor * d1, factor * d2),
    )
    return Stage(
        trace,
        real,
        Profile.of(
            trace,
            believed,
            ttft_seconds=scenario.ttft_seconds,
            tpot_seconds=scenario.tpot_seconds,
            cold_start_seconds=case.cold_start_seconds,
            router=case.router,
        ),
        FleetSettings(
            ttft_seconds=scenario.ttft_seconds,
            tpot_seconds=scenario.tpot_seconds,
            cold_start_seconds=case.cold_start_seconds,
            router=case.router,
            seed=case.seed,
            max_workers=MOST_WORKERS,
            **levers,
        ),
        outages(case.outage, trace),
    )


def outages(name: str, trace: Trace) -> Outages | None:
    """Raises KeyError for an unknown name."""
    length = OUTAGES[name]
    if not length:
        return None
    start, span = trace.warm_up_seconds, trace.duration_seconds - trace.warm_up_seconds
    if name == "flapping":
        moments = [start + length * 2 * k for k in range(int(span / (2 * length)))]
    else:
        moments = [start + share * span for share in (0.25, 0.6)]
    return Outages(tuple((moment, moment + length) for moment in moments))
