"""Known queues: M/D/1 and M/G/1 (Pollaczek and Khinchine), M/M/c (Erlang C), and what random routing costs."""

import math

import numpy as np
import pytest

from tandem_autoscaler.model.queueing import erlang_c
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.trace import Trace
from tests.simulator.fleets import run_out, trace_of

# Decode and transfer take no time worth naming, so TTFT is the wait and the prefill.
CONSTANT = Hardware("constant", 1, (0.1, 0.0, 0.0), (1e-9, 0.0, 0.0), 10**9, 4096, 0.0)
BY_LENGTH = Hardware("by length", 1, (0.0, 1e-4, 0.0), (1e-9, 0.0, 0.0), 10**9, 4096, 0.0)
MANY = 200_000


def _arrivals(rate: float, seed: int, prompt: np.ndarray | float = 1000.0) -> Trace:
    random = np.random.default_rng(seed)
    return trace_of(np.cumsum(random.exponential(1 / rate, MANY)), prompt, 1.0)


def _waits(trace: Trace, hardware: Hardware, workers: int = 1, router: str = "least_work") -> np.ndarray:
    served = run_out(trace, workers, 1, hardware, router=router)
    return served.ttft - hardware.prefill_seconds(trace.prompt)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_worker_with_equal_prompts_is_md1(load: float) -> None:
    waits = _waits(_arrivals(load / 0.1, 1), CONSTANT)
    assert waits.mean() == pytest.approx(load * 0.1 / (2 * (1 - load)), rel=0.03)


def test_one_worker_with_spread_lengths_waits_by_the_second_moment() -> None:
    prompt = np.ceil(np.random.default_rng(2).gamma(0.5, 2000, MANY))
    seconds = 1e-4 * prompt
    rate = 0.7 / seconds.mean()
    expected = rate * (seconds**2).mean() / (2 * (1 - 0.7))
    assert _waits(_arrivals(rate, 3, prompt), BY_LENGTH).mean() == pytest.approx(expected, rel=0.05)


def test_least_work_over_several_workers_is_one_common_queue() -> None:
    """Whoever has the least work left would have been free first: the same as M/M/c, tail included."""
    prompt = np.ceil(np.random.default_rng(4).exponential(10_000, MANY))
    workers, mean = 5, 1.0
    rate = 0.85 * workers / mean
    waits = _waits(_arrivals(rate, 5, prompt), BY_LENGTH, workers)
    waiting = erlang_c(workers, rate * mean)
    assert np.mean(waits > 1e-6) == pytest.approx(waiting, rel=0.03)
    assert waits.mean() == pytest.approx(waiting * mean / (workers * (1 - 0.85)), rel=0.06)
    assert np.mean(waits > 2.0) == pytest.approx(waiting * math.exp(-2.0 * workers * (1 - 0.85)), rel=0.1)


def test_routers_wait_in_their_known_order() -> None:
    trace = _arrivals(0.8 * 4 / 0.1, 6)
    random, two, least = (
        _waits(trace, CONSTANT, 4, router).mean() for router in ("random", "power_of_two", "least_work")
    )
    # Each of four workers with a random quarter of a Poisson stream is M/D/1.
    assert random == pytest.approx(0.8 * 0.1 / (2 * 0.2), rel=0.04)
    assert least < two < 0.6 * random
