"""The chunk tuner: which token budget and long-prompt threshold keep both promises with the fewest workers. Pure.

A large budget computes prompts quickly and holds answers up; a small one reads the weights for every few tokens. The
threshold leaves room in each step for short prompts behind a long one, which then takes longer itself. Which of these
matters depends on the lengths, on the rate and on both targets (ALGORITHM 4.9; `model/colocated.py` predicts each).
Both are flags that a worker starts with, so a change restarts the pool, one worker at a time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tandem_autoscaler.model.colocated import Predicted, Promise, Traffic, Worker, capacity, predict
from tandem_autoscaler.model.mixed_step import DEFAULT_BUDGET, Chunking
from tandem_autoscaler.model.queueing import dealt

# Powers of two, as attention kernels and CUDA graphs like them, and parts of the budget that one prompt may have.
BUDGETS = (256, 512, 1024, 2048, 4096, 8192, 16384)
SHARES = (8, 4, 2)
_LEAST_THRESHOLD = 32
# A restart of the pool must be worth as much: that share of the workers, or that many more requests in time.
WORTH_WORKERS, WORTH_IN_TIME = 0.10, 0.02
_SAME = 0.04  # of a capacity, as a logarithm


@dataclass(frozen=True)
class Tuning:
    """`capacity`: requests per second that one worker serves with both promises kept.

    `workers`: the fewest for the traffic; None: no number keeps the promises. `predicted` is of the present number.
    """

    chunking: Chunking
    capacity: float
    workers: int | None
    predicted: Predicted


@dataclass(frozen=True)
class Tuned:
    now: Tuning
    best: Tuning

    @property
    def worth_a_restart(self) -> bool:
        """Does it save a tenth of the workers, make possible what was not, or keep clearly more promises?"""
        if self.best.workers is None:
            return self.best.predicted.in_time > self.now.predicted.in_time + WORTH_IN_TIME
        if self.now.workers is None:
            return True
        saved = self.now.workers - self.best.workers
        better = self.best.predicted.in_time > self.now.predicted.in_time + WORTH_IN_TIME
        return saved >= max(1.0, WORTH_WORKERS * self.now.workers) or (saved >= 0 and better)


@dataclass(frozen=True)
class Grid:
    """What a pool's chunks may be set to.

    `longest`: engine.maxModelLen; prompts need no larger budget than that. `least`: engine.maxSequences; vLLM refuses a
    budget that does not hold one token of each. `thresholds`: has the engine such a thing (SGLang has not)?
    """

    longest: int | None = None
    least: int = 0
    thresholds: bool = True

    def settings(self) -> Iterator[Chunking]:
        """vLLM's default budget first: of equals the first is taken."""
        for budget in sorted(BUDGETS, key=lambda tokens: tokens != DEFAULT_BUDGET):
            if budget < self.least or self._needless(budget):
                continue
            yield Chunking(budget)
            for part in SHARES if self.thresholds else ():
                if budget // part >= _LEAST_THRESHOLD:
                    yield Chunking(budget, budget // part)

    def _needless(self, budget: int) -> bool:
        longest = self.longest
        return longest is not None and budget >= 2 * longest and budget > max(self.least, BUDGETS[0])


def tune(
    worker: Worker, traffic: Traffic, promise: Promise, now: Chunking, workers: int, grid: Grid = Grid()
) -> Tuned:
    """The best of the grid beside the present setting, for the traffic of a pool with `workers` ready ones."""
    scv = dealt(traffic.arrival_scv, workers)
    of_one = replace(traffic, arrivals=traffic.arrivals / workers, arrival_scv=scv)

    def rated(chunking: Chunking) -> Tuning:
        found = capacity(worker, of_one, promise, chunking)
        enough = max(1, math.ceil(traffic.arrivals / found)) if found > 0.0 else None
        return Tuning(chunking, found, enough, predict(worker, of_one, promise, chunking))

    present = rated(now)
    others = (one for one in grid.settings() if one != now)
    return Tuned(present, min([present, *map(rated, others)], key=lambda one: _rank(one, present)))


def _rank(one: Tuning, present: Tuning) -> tuple[float, ...]:
    """The most capacity, so the fewest workers; where nothing keeps the promises, the most requests in time.

    Within a few percent all are the same: the model is no better than that, and a change is a restart.
    """
    changed = float(one is not present)
    if one.capacity <= 0.0:
        return (1.0, -round(one.predicted.in_time, 2), changed)
    return (0.0, -round(math.log(one.capacity) / _SAME), changed)
