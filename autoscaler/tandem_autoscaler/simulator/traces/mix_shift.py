"""The same number of requests per second throughout, first with long prompts, then with long answers, and back.

Whoever scales on requests per second sees nothing happen.
"""

import numpy as np

from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.arrivals import poisson
from tandem_autoscaler.simulator.traces.lengths import log_normal

RATE_PER_SECOND = 35.0
DURATION_SECONDS = 3600.0
# Share of requests with long answers: its corners, linear between.
CORNERS_SECONDS = (0.0, 1080.0, 1380.0, 2280.0, 2580.0, 3600.0)
SHARE_AT_CORNERS = (0.0, 0.0, 1.0, 1.0, 0.0, 0.0)


def mix_shift(name: str, random: np.random.Generator, scale: float) -> Trace:
    at = poisson(random, DURATION_SECONDS, lambda t: np.full(len(t), scale * RATE_PER_SECOND))
    count = len(at)
    long_answer = random.random(count) < np.interp(at, CORNERS_SECONDS, SHARE_AT_CORNERS)
    prompt = np.where(
        long_answer,
        log_normal(random, count, mean=500.0, cv=0.8, most=8_000),
        log_normal(random, count, mean=3000.0, cv=0.6, most=12_000),
    )
    output = np.where(
        long_answer,
        log_normal(random, count, mean=900.0, cv=0.6, most=4_000),
        log_normal(random, count, mean=120.0, cv=0.7, most=1_000),
    )
    return Trace(name, at, prompt, output, DURATION_SECONDS, 300.0, "made up")
