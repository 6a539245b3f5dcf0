"""The load of NVIDIA Dynamo's published planner test: a sine between 5 and 45 requests per second.

Period 600 s, 30 minutes, 3,000 prompt and 300 output tokens each, from the trough on.
"""

import numpy as np

from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.arrivals import poisson

LEAST, MOST = 5.0, 45.0
PERIOD_SECONDS = 600.0
DURATION_SECONDS = 1800.0
PROMPT, OUTPUT = 3000.0, 300.0
NOTE = "the load of NVIDIA Dynamo's published planner test, Poisson arrivals"


def dynamo_sine(name: str, random: np.random.Generator, scale: float) -> Trace:
    middle, half = (MOST + LEAST) / 2, (MOST - LEAST) / 2
    at = poisson(
        random,
        DURATION_SECONDS,
        lambda t: scale * (middle - half * np.cos(2 * np.pi * t / PERIOD_SECONDS)),
    )
    return Trace(name, at, np.full(len(at), PROMPT), np.full(len(at), OUTPUT), DURATION_SECONDS, note=NOTE)
