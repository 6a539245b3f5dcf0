"""Nothing for a quarter of an hour, then everybody at once, twice."""

import numpy as np

from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.arrivals import poisson
from tandem_autoscaler.simulator.traces.lengths import log_normal

SPIKE_PER_SECOND = 60.0
IDLE_SECONDS, SPIKE_SECONDS = 900.0, 600.0
TIMES = 2


def idle_spike(name: str, random: np.random.Generator, scale: float) -> Trace:
    cycle = IDLE_SECONDS + SPIKE_SECONDS
    at = poisson(
        random,
        TIMES * cycle,
        lambda t: np.where(t % cycle < IDLE_SECONDS, 0.0, scale * SPIKE_PER_SECOND),
    )
    prompt = log_normal(random, len(at), mean=1150.0, cv=0.96, most=14_000)
    output = log_normal(random, len(at), mean=210.0, cv=0.77, most=1_000)
    return Trace(name, at, prompt, output, TIMES * cycle, 0.0, "made up; lengths like Azure's of 2023")
