"""The cheapest first-come-first-served schedule that someone who knows the trace could have had, by local search.

A schedule says how many workers of each role are present in every 15 s; they are ordered one cold start ahead and no
cold start takes longer than that. No flips, no demotion: only the right number at the right time (ALGORITHM 6, 7c).

The search begins with the model oracle at several margins and with fixed fleets, takes for each stretch of the trace
the best of them, and then moves blocks of slots by one worker. Far-apart stretches hardly influence each other, so
every stretch tries a move of its own in each simulation, and keeps it if cost + price x misses of that stretch fell.
The price of a miss falls slowly, so that one search passes from almost no misses to many and leaves a curve behind.

What it finds is an upper bound of the optimum: a longer search may find a cheaper schedule. The same curve is used for
all policies.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.fleet import FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.oracle_model import true_needs
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.schedule import SLOT_SECONDS, Schedule
from tandem_autoscaler.simulator.run import Result, simulate
from tandem_autoscaler.simulator.trace import Trace

VERSION = 3
# (share of late prompts allowed to the formula, its factor on the arrivals)
_STARTS = ((0.002, 1.3), (0.01, 1.1), (0.03, 1.0), (0.1, 1.0), (0.25, 0.95), (0.5, 0.9))
# Where cold starts are dear a fleet that hardly moves is best: levels at these quantiles of the need.
_LEVELS = (0.75, 0.9, 0.97)
# The attainments that the price is steered through.
_STAGES = (0.9995, 0.998, 0.995, 0.99, 0.98, 0.965)
# ... or, where one attainment is asked about: those with such parts of its misses.
_AROUND = (0.6, 0.8, 0.95)
_PRICE_RANGE = 8.0
_STRETCHES_SECONDS = (120.0, 180.0, 300.0)
_BLOCKS = (1, 2, 3, 4, 6, 8)

Slots = NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """What determines the curve. `settings` keeps its targets, cold start, router and seed; the rest is set here."""

    trace: Trace
    hardware: Hardware
    settings: FleetSettings

    @property
    def fleet_settings(self) -> FleetSettings:
        return replace(self.settings, cold_start_cv=0.0, late_demotion=False, flips=False, undrain=True)

    @property
    def slots(self) -> int:
        return int(np.ceil(self.trace.duration_seconds / SLOT_SECONDS)) + 1

    def key(self, evaluations: int, around: float | None = None) -> str:
        """Differs when anything differs that the curve rests on."""
        digest = hashlib.sha256()
        for array in (self.trace.arrival, self.trace.prompt, self.trace.output):
            digest.update(np.ascontiguousarray(array).tobytes())
        rest = {
            "version": VERSION,
            "evaluations": evaluations,
            "duration": [self.trace.warm_up_seconds, self.trace.duration_seconds],
            "hardware": asdict(self.hardware),
            "settings": asdict(self.fleet_settings),
        }
        if around is not None:
            rest["around"] = around
        digest.update(json.dumps(rest, sort_keys=True).encode())
        return digest.hexdigest()[:20]

    def play(self, prefill: Slots, decode: Slots) -> Result:
        schedule = Schedule(prefill.tolist(), decode.tolist(), self.settings.cold_start_seconds)
        return simulate(self.trace, self.hardware, self.fleet_settings, schedule, *schedule.at(0.0))


@dataclass(frozen=True)
class Curve:
    """Schedules that no other one found beats, cost and attainment ascending. (k,) and (k, slots)."""

    attainment: NDArray[np.float64]  # joint, of the feasible requests
    gpu_hours: NDArray[np.float64]
    prefill: NDArray[np.int64]
    decode: NDArray[np.int64]

    def gpu_hours_at(self, problem: Problem, cold_start_seconds: float) -> NDArray[np.float64]:
        """What the same schedules cost with another cold start: the orders are earlier or later, the rest is equal."""
        begin, end = problem.trace.warm_up_seconds, problem.trace.duration_seconds
        ticks = np.arange(0.0, end, SLOT_SECONDS)
        seconds = np.maximum(0.0, np.minimum(ticks + SLOT_SECONDS, end) - np.maximum(ticks, begin))
        costs = []
        for prefill, decode in zip(self.prefill, self.decode, strict=True):
            worker_seconds = [
                sum(span * sum(schedule.at(tick)) for span, tick in zip(seconds, ticks, strict=True))
                for schedule in (
                    Schedule(prefill.tolist(), decode.tolist(), cold)
                    for cold in (problem.settings.cold_start_seconds, cold_start_seconds)
                )
            ]
            costs.append(worker_seconds[1] - worker_seconds[0])
        return self.gpu_hours + np.array(costs) * problem.hardware.gpus / 3600.0


def curve(
    problem: Problem, *, evaluations: int, folder: Path | None = None, around: float | None = None
) -> Curve:
    """By about so many simulations, or as found before and kept in `folder`. The same problem, the same curve.

    `around`: the attainment, 0 to 1, that is asked about. All simulations then go there and are not spread over
    the whole curve: a stricter price of one attainment, and a poorer one of the others.
    """
    path = folder / f"{problem.trace.name}-{problem.key(evaluations, around)}.npz" if folder else None
    if path is not None and path.exists():
        with np.load(path) as kept:
            return Curve(kept["attainment"], kept["gpu_hours"], kept["prefill"], kept["decode"])
    stages = _STAGES if around is None else tuple(1.0 - part * (1.0 - around) for part in _AROUND)
    found = _Search(problem, stages).run(evaluations)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, **{name: getattr(found, name) for name in Curve.__dataclass_fields__})
        part.replace(path)
    return found


@dataclass(frozen=True)
class _Played:
    prefill: Slots
    decode: Slots
    attainment: float
    gpu_hours: float
    missed: NDArray[np.float64]  # arrival moments of the feasible requests that missed a target
    worker_seconds: NDArray[np.float64]  # per slot


class _Search:
    def __init__(self, problem: Problem, stages: Sequence[float]) -> None:
        self.problem, self.stages = problem, stages
        self.random = np.random.default_rng(problem.settings.seed)
        self.found: list[_Played] = []

    def run(self, evaluations: int) -> Curve:
        played = [self._play(*slots) for slots in self._starts()]
        # Worker seconds that one request more in time may cost at first: those of the dearest start over 5 % of them.
        counted = max(1, int(self._counted().sum()))
        price = 3600.0 * played[0].gpu_hours / self.problem.hardware.gpus / (0.05 * counted)
        base = self._play(*self._best_of_each_stretch(played, price))
        left = evaluations - len(self.found)
        # Within a stage, whose steps take two simulations each, the price can move by _PRICE_RANGE.
        stages = len(self.stages)
        pace = _PRICE_RANGE ** (2 * stages / max(left, 2 * stages))
        for stage, target in enumerate(self.stages):
            until = left * (stage + 1) // stages + evaluations - left
            while len(self.found) < until:
                base = self._step(base, price)
                price *= pace if base.attainment < target else 1.0 / pace
        return self._curve()

    def _starts(self) -> Iterator[tuple[Slots, Slots]]:
        problem, settings = self.problem, self.problem.settings
        profile = Profile.of(
            problem.trace,
            problem.hardware,
            ttft_seconds=settings.ttft_seconds,
            tpot_seconds=settings.tpot_seconds,
            cold_start_seconds=settings.cold_start_seconds,
            router=settings.router,
        )
        for allowance, headroom in _STARTS:
            needs = true_needs(problem.trace, profile, allowance / 0.8, headroom)
            yield self._fitted(needs[0]), self._fitted(needs[1])
        needs = true_needs(problem.trace, profile, 0.05)
        for level in _LEVELS:
            prefill, decode = (int(np.ceil(np.quantile(need, level))) for need in needs)
            yield np.full(problem.slots, prefill), np.full(problem.slots, decode)

    def _fitted(self, slots: Slots) -> Slots:
        """As long as the trace; the last slot goes on."""
        return np.concatenate([slots, np.full(max(0, self.problem.slots - len(slots)), slots[-1])])[
            : self.problem.slots
        ]

    def _counted(self) -> NDArray[np.bool_]:
        return np.asarray(self.problem.trace.arrival >= self.problem.trace.warm_up_seconds)

    def _play(self, prefill: Slots, decode: Slots) -> _Played:
        problem = self.problem
        result = problem.play(prefill, decode)
        settings = problem.settings
        feasible = result.feasible & result.counted
        missed = feasible & ~((result.ttft <= settings.ttft_seconds) & (result.tpot <= settings.tpot_seconds))
        # (k, 9): the moment, then per role target, ready, starting and draining.
        slot = np.minimum((result.log[:, 0] // SLOT_SECONDS).astype(int), problem.slots - 1)
        workers = result.log[:, [2, 3, 4, 6, 7, 8]].sum(axis=1)
        seconds = np.bincount(slot, SLOT_SECONDS * workers, minlength=problem.slots).astype(np.float64)
        played = _Played(
            prefill,
            decode,
            1.0 - missed.sum() / max(1, feasible.sum()),
            result.gpu_hours,
            problem.trace.arrival[missed],
            seconds,
        )
        self.found.append(played)
        return played

    def _stretches(self) -> tuple[float, float, int]:
        """(length, offset, how many): a new division of the trace, so that no boundary is always one."""
        length = float(self.random.choice(_STRETCHES_SECONDS)) + self.problem.settings.cold_start_seconds
        offset = float(self.random.uniform(0.0, length))
        return length, offset, int((self.problem.slots * SLOT_SECONDS + offset) // length) + 1

    def _loss(
        self, played: _Played, price: float, length: float, offset: float, count: int
    ) -> NDArray[np.float64]:
        """Worker seconds + price x misses of each stretch."""
        slots = ((SLOT_SECONDS * np.arange(self.problem.slots) + offset) // length).astype(int)
        misses = ((played.missed + offset) // length).astype(int)
        counted_slots = (
            SLOT_SECONDS * (np.arange(self.problem.slots) + 1) > self.problem.trace.warm_up_seconds
        )
        cost = np.bincount(slots, weights=played.worker_seconds * counted_slots, minlength=count)
        return cost + price * np.bincount(misses, minlength=count)

    def _best_of_each_stretch(self, played: list[_Played], price: float) -> tuple[Slots, Slots]:
        length, offset, count = self._stretches()
        losses = np.array([self._loss(each, price, length, offset, count) for each in played])
        best = losses.argmin(axis=0)[
            ((SLOT_SECONDS * np.arange(self.problem.slots) + offset) // length).astype(int)
        ]
        slots = np.arange(self.problem.slots)
        return (
            np.array([each.prefill for each in played])[best, slots],
            np.array([each.decode for each in played])[best, slots],
        )

    def _step(self, base: _Played, price: float) -> _Played:
        """One move in every stretch, simulated together; those that paid are kept and simulated once more."""
        length, offset, count = self._stretches()
        prefill, decode = base.prefill.copy(), base.decode.copy()
        missed = np.bincount(((base.missed + offset) // length).astype(int), minlength=count)
        for stretch in range(count):
            self._move(prefill, decode, stretch * length - offset, length, bool(missed[stretch]))
        tried = self._play(prefill, decode)
        gain = self._loss(base, price, length, offset, count) - self._loss(
            tried, price, length, offset, count
        )
        kept = (gain > 1e-9)[((SLOT_SECONDS * np.arange(self.problem.slots) + offset) // length).astype(int)]
        if not kept.any():
            return base
        if kept.all():
            return tried
        return self._play(np.where(kept, prefill, base.prefill), np.where(kept, decode, base.decode))

    def _move(self, prefill: Slots, decode: Slots, begin: float, length: float, missed: bool) -> None:
        """A block of slots of one role in the middle of the stretch, by one worker or level with what precedes it."""
        random, slots = self.random, self.problem.slots
        moved, other = (prefill, decode) if random.random() < 0.5 else (decode, prefill)
        blocks = int(random.choice(_BLOCKS))
        # Away from the edges: an order reaches one cold start back, a queue some seconds ahead.
        low = begin + self.problem.settings.cold_start_seconds + 5.0
        high = max(low + SLOT_SECONDS, begin + length - 30.0 - blocks * SLOT_SECONDS)
        first = int(random.uniform(low, high) // SLOT_SECONDS)
        if not 0 <= first < slots:
            return
        block = slice(first, first + blocks)
        if random.random() < 0.15 and first > 0:
            moved[block] = moved[first - 1]
            return
        change = 1 if random.random() < (0.45 if missed else 0.15) else -1
        moved[block] = np.maximum(1, moved[block] + change)
        if random.random() < 0.1:
            other[block] = np.maximum(1, other[block] - change)

    def _curve(self) -> Curve:
        best: list[_Played] = []
        for played in sorted(self.found, key=lambda played: (played.gpu_hours, -played.attainment)):
            if not best or played.attainment > best[-1].attainment:
                best.append(played)
        return Curve(
            np.array([played.attainment for played in best]),
            np.array([played.gpu_hours for played in best]),
            np.array([played.prefill for played in best]),
            np.array([played.decode for played in best]),
        )
