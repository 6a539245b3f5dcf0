"""Cases to rows, on several processes."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from tandem_autoscaler.benchmark.case import MOST_WORKERS, Case, Stage, stage
from tandem_autoscaler.benchmark.contenders import contenders
from tandem_autoscaler.benchmark.frontier import Point
from tandem_autoscaler.benchmark.row import Row, row
from tandem_autoscaler.benchmark.suite import Job, is_best_static
from tandem_autoscaler.benchmark.verdict import PROMISE
from tandem_autoscaler.simulator import hindsight
from tandem_autoscaler.simulator.policies.policy import Policy
from tandem_autoscaler.simulator.policies.static import Static, best
from tandem_autoscaler.simulator.run import simulate

FEWEST_EVALUATIONS, MOST_EVALUATIONS = 20, 400

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def play(job: Job) -> Row:
    """One simulation."""
    case = job.case
    contender = contenders()[case.policy]
    policy: Policy
    on = stage(case, contender.levers)
    if is_best_static(case):
        prefill, decode = _best_static(on)
        case = case.with_constants({"prefill": prefill, "decode": decode}, tuned=True)
        policy, start = Static(prefill, decode), (prefill, decode)
    else:
        policy = contender.make(on.trace, on.believed, **dict(case.constants))
        start = (case.scenario.prefill, case.scenario.decode)
    result = simulate(on.trace, on.hardware, on.settings, policy, *start, outages=on.outages)
    return row(job.set_name, case, result, late_demotion=on.settings.late_demotion)


def _best_static(on: Stage) -> tuple[int, int]:
    @cache
    def attainment(prefill: int, decode: int) -> float:
        policy = Static(prefill, decode)
        return simulate(on.trace, on.hardware, on.settings, policy, prefill, decode).attainment.joint

    return best(attainment, MOST_WORKERS, PROMISE)


def search(task: tuple[Case, int, Path, tuple[float, ...], float | None]) -> dict[float, list[Point]]:
    """Hindsight for a trace and seed, by simulating about so many requests: (attainment, GPU-hours) by cold
    start; found at the case's own, which is the first, and priced anew for the `others`. The last of the task is the
    attainment that is asked about, if it is one."""
    case, requests, folder, others, around = task
    on = stage(case, {})
    evaluations = max(FEWEST_EVALUATIONS, min(MOST_EVALUATIONS, requests // len(on.trace)))
    problem = hindsight.Problem(on.trace, on.hardware, on.settings)
    found = hindsight.curve(problem, evaluations=evaluations, folder=folder, around=around)
    costs = {case.cold_start_seconds: found.gpu_hours}
    costs.update({seconds: found.gpu_hours_at(problem, seconds) for seconds in others})
    return {seconds: _points(hours, found.attainment) for seconds, hours in costs.items()}


def _points(gpu_hours: np.ndarray, attainment: np.ndarray) -> list[Point]:
    return [Point(float(hours), float(share)) for hours, share in zip(gpu_hours, attainment, strict=True)]


class Crew:
    """Processes that are fresh interpreters: compiled code comes from numba's cache."""

    def __init__(self, processes: int) -> None:
        self._pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))

    def each(
        self, work: Callable[[Task], Answer], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Answer | Exception]]:
        """As they end. What one of them raised comes in its place, so that the others go on."""
        futures: dict[Future[Answer], Task] = {self._pool.submit(work, task): task for task in tasks}
        for future in as_completed(futures):
            error = future.exception()
            if isinstance(error, Exception):
                yield futures[future], error
            elif error is not None:
                raise error
            else:
                yield futures[future], future.result()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
