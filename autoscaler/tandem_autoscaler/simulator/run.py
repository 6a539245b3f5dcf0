"""A trace, a fleet and a policy -> what its users had and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator import core
from tandem_autoscaler.simulator.fleet import Counts, Fleet, FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.policy import Policy, Targets
from tandem_autoscaler.simulator.trace import Trace

# What has not ended so long after the trace is a miss.
RUN_OUT_SECONDS = 1800.0
# A minute is in violation when more than this share of its requests misses one of the promises (p95 targets).
_ALLOWANCE = 0.05
_BUCKET_SECONDS = 60.0


@dataclass(frozen=True)
class Outages:
    """When measurements fail: `silent` are (from, to) in seconds, and every decision comes `delay_seconds` late.

    Within a silence, policies that cannot work blind make no step, so that their targets stand. One that can
    (`works_blind = True`) is asked, and `fleet.silent` tells its readings.
    """

    silent: Sequence[tuple[float, float]] = ()
    delay_seconds: float = 0.0

    def silent_at(self, seconds: float) -> bool:
        return any(begin <= seconds < end for begin, end in self.silent)


@dataclass(frozen=True)
class Attainment:
    """Shares of the requests that count and are feasible; `all_joint` of all that count.

    A request is infeasible when prefill, transfer and one iteration on idle workers take longer than the TTFT target:
    no number of workers helps it.
    """

    ttft: float
    tpot: float
    joint: float
    all_joint: float
    infeasible_share: float
    goodput_per_second: float  # requests that kept both promises
    minutes_in_violation: int


@dataclass(frozen=True)
class Result:
    """n requests in the trace's order, k ticks. Times in seconds, inf: never (a failed request has no first token)."""

    trace: Trace
    hardware: Hardware
    settings: FleetSettings
    ttft: NDArray[np.float64]  # (n,)
    tpot: NDArray[np.float64]  # (n,) mean time per token after the first; 0 for a single one
    log: NDArray[np.float64]  # (k, 9) see LOG_COLUMNS
    counts: Counts
    preemptions: int
    demotions: int
    failed: int
    gpu_hours_prefill: float
    gpu_hours_decode: float

    @property
    def gpu_hours(self) -> float:
        return self.gpu_hours_prefill + self.gpu_hours_decode

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """(n,) requests that came after the warm-up."""
        return np.asarray(self.trace.arrival >= self.trace.warm_up_seconds)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        """(n,) requests that idle workers would answer in time."""
        prompt, hardware = self.trace.prompt, self.hardware
        d0, d1, d2 = hardware.decode
        alone = hardware.prefill_seconds(prompt) + hardware.transfer_seconds(prompt) + d0 + d1 + d2 * prompt
        return np.asarray(alone < self.settings.ttft_seconds)

    @cached_property
    def attainment(self) -> Attainment:
        """How well the promises of `settings` were kept."""
        in_ttft = self.ttft <= self.settings.ttft_seconds
        in_tpot = self.tpot <= self.settings.tpot_seconds
        both = in_ttft & in_tpot
        counted, judged = self.counted, self.counted & self.feasible
        seconds = self.trace.duration_seconds - self.trace.warm_up_seconds
        return Attainment(
            ttft=_share(in_ttft, judged),
            tpot=_share(in_tpot, judged),
            joint=_share(both, judged),
            all_joint=_share(both, counted),
            infeasible_share=_share(~self.feasible, counted) if counted.any() else 0.0,
            goodput_per_second=float((both & counted).sum()) / seconds if seconds > 0 else 0.0,
            minutes_in_violation=_minutes_in_violation(self.trace.arrival, judged, in_ttft, in_tpot),
        )


LOG_COLUMNS = (
    "now_seconds",
    "prefill_target", "prefill_ready", "prefill_starting", "prefill_draining",
    "decode_target", "decode_ready", "decode_starting", "decode_draining",
)  # fmt: skip


def _share(hits: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
    """Without a request nothing was broken: 1."""
    total = int(among.sum())
    return float((hits & among).sum()) / total if total else 1.0


def _minutes_in_violation(
    arrival: NDArray[np.float64],
    judged: NDArray[np.bool_],
    in_ttft: NDArray[np.bool_],
    in_tpot: NDArray[np.bool_],
) -> int:
    if not judged.any():
        return 0
    minute = (arrival[judged] // _BUCKET_SECONDS).astype(np.int64)
    total = np.bincount(minute)
    broken = np.zeros(len(total), bool)
    for kept in (in_ttft, in_tpot):
        missed = np.bincount(minute, weights=~kept[judged], minlength=len(total))
        broken |= missed > _ALLOWANCE * total
    return int(broken.sum())


def simulate(
    trace: Trace,
    hardware: Hardware,
    settings: FleetSettings,
    policy: Policy,
    prefill: int,
    decode: int,
    outages: Outages | None = None,
) -> Result:
    """The trace with `policy` asked every `policy.tick_seconds`, then half an hour more at most for what is left."""
    outages = outages or Outages()
    fleet = Fleet(trace, hardware, settings, prefill, decode)
    # Most policies never look at the workers' histograms. Whoever does makes `Readings` at its first step, before any
    # request has ended, and that lets them be filled.
    fleet.exporting = False
    log: list[tuple[float, ...]] = []
    pending: list[tuple[float, Targets]] = []
    ticks = np.arange(0.0, trace.duration_seconds, policy.tick_seconds)
    for now in ticks:
        while pending and pending[0][0] <= now:
            _apply(fleet, *pending.pop(0))
        fleet.advance(now)
        fleet.silent = outages.silent_at(now)
        if not fleet.silent or getattr(policy, "works_blind", False):
            pending.append((now + outages.delay_seconds, policy.step(fleet)))
        while pending and pending[0][0] <= now:
            _apply(fleet, *pending.pop(0))
        log.append((now, *fleet.census()))
    for decision in pending:
        if decision[0] < trace.duration_seconds:
            _apply(fleet, *decision)
    fleet.advance(trace.duration_seconds)
    return result(fleet, np.array(log).reshape(len(log), len(LOG_COLUMNS)))


def _apply(fleet: Fleet, at_seconds: float, targets: Targets) -> None:
    fleet.advance(at_seconds)
    fleet.set_targets(targets.prefill, targets.decode)


def result(fleet: Fleet, log: NDArray[np.float64] | None = None) -> Result:
    """Let what is left run out, and sum up."""
    fleet.advance(fleet.trace.duration_seconds + RUN_OUT_SECONDS)
    requests, totals = fleet.state.requests, fleet.state.fleet[0]
    failed = requests["phase"] == core.FAILED
    with np.errstate(invalid="ignore"):  # inf - inf: neither first token nor end
        tpot = (requests["finished"] - requests["first"]) / np.maximum(requests["output"] - 1.0, 1.0)
    unfinished = requests["phase"] != core.FINISHED
    seconds = fleet.gpu_seconds()
    return Result(
        trace=fleet.trace,
        hardware=fleet.hardware,
        settings=fleet.settings,
        ttft=np.where(failed, np.inf, requests["first"] - requests["arrival"]),
        tpot=np.where(unfinished, np.inf, np.where(requests["output"] > 1, tpot, 0.0)),
        log=np.zeros((0, len(LOG_COLUMNS))) if log is None else log,
        counts=fleet.counts,
        preemptions=int(totals["preemptions"]),
        demotions=int(totals["demotions"]),
        failed=int(totals["failed"]),
        gpu_hours_prefill=seconds[0] / 3600.0,
        gpu_hours_decode=seconds[1] / 3600.0,
    )
