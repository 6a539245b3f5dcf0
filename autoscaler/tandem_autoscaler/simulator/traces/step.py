"""Twenty minutes at a quarter of the load, twenty at all of it, twenty at a quarter again."""

import numpy as np

from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.arrivals import poisson
from tandem_autoscaler.simulator.traces.lengths import log_normal

BASE_PER_SECOND = 20.0
FACTOR = 4.0
STEP_SECONDS = 1200.0


def step(name: str, random: np.random.Generator, scale: float) -> Trace:
    at = poisson(
        random,
        3 * STEP_SECONDS,
        lambda t: scale * BASE_PER_SECOND * np.where(t // STEP_SECONDS == 1, FACTOR, 1.0),
    )
    prompt = log_normal(random, len(at), mean=1150.0, cv=0.96, most=14_000)
    output = log_normal(random, len(at), mean=210.0, cv=0.77, most=1_000)
    return Trace(name, at, prompt, output, 3 * STEP_SECONDS, 300.0, "made up; lengths like Azure's of 2023")
