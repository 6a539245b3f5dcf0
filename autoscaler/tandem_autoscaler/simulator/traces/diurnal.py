"""Days made short: a sine from trough to peak and back, smooth or with bursts on top."""

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.arrivals import poisson
from tandem_autoscaler.simulator.traces.lengths import log_normal

LEAST, MOST = 15.0, 60.0  # requests per second
SLOW_PERIOD_SECONDS = 7200.0
BURSTY_PERIOD_SECONDS = 3600.0
# What no forecaster sees coming: the logarithm of the rate wanders (deviation, memory), and now and then doubles.
WANDER, WANDER_SECONDS = 0.2, 90.0
BURST_FACTOR = 1.8
BURST_EVERY_SECONDS, BURST_SECONDS = 480.0, 75.0


def slow_diurnal(name: str, random: np.random.Generator, scale: float) -> Trace:
    """Two hours, one day."""
    at = poisson(random, SLOW_PERIOD_SECONDS, lambda t: scale * _sine(t, SLOW_PERIOD_SECONDS))
    return _trace(name, random, at, SLOW_PERIOD_SECONDS)


def bursty_diurnal(name: str, random: np.random.Generator, scale: float) -> Trace:
    """One hour, one day, with a wandering rate and bursts of a minute or so every eight minutes in the mean."""
    at = poisson(
        random,
        BURSTY_PERIOD_SECONDS,
        lambda t: scale * _sine(t, BURSTY_PERIOD_SECONDS) * _wander(random, len(t)) * _bursts(random, t),
    )
    return _trace(name, random, at, BURSTY_PERIOD_SECONDS)


def _sine(t: NDArray[np.float64], period_seconds: float) -> NDArray[np.float64]:
    return (MOST + LEAST) / 2 - (MOST - LEAST) / 2 * np.cos(2 * np.pi * t / period_seconds)


def _wander(random: np.random.Generator, seconds: int) -> NDArray[np.float64]:
    """exp of an Ornstein-Uhlenbeck process, one value a second, mean 1."""
    memory = np.exp(-1.0 / WANDER_SECONDS)
    push = random.normal(0.0, WANDER * np.sqrt(1.0 - memory**2), seconds)
    value, values = random.normal(0.0, WANDER), np.empty(seconds)
    for second in range(seconds):
        value = memory * value + push[second]
        values[second] = value
    return np.exp(values - WANDER**2 / 2)


def _bursts(random: np.random.Generator, t: NDArray[np.float64]) -> NDArray[np.float64]:
    factor, at = np.ones(len(t)), 0.0
    while (at := at + random.exponential(BURST_EVERY_SECONDS)) < t[-1]:
        end = at + BURST_SECONDS * random.uniform(0.5, 1.5)
        factor[(t >= at) & (t < end)] = BURST_FACTOR
        at = end
    return factor


def _trace(name: str, random: np.random.Generator, at: NDArray[np.float64], duration: float) -> Trace:
    prompt = log_normal(random, len(at), mean=1150.0, cv=0.96, most=14_000)
    output = log_normal(random, len(at), mean=210.0, cv=0.77, most=1_000)
    return Trace(name, at, prompt, output, duration, 300.0, "made up; lengths like Azure's of 2023")
