"""Small fleets and traces for the tests."""

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.run import Result, result
from tandem_autoscaler.simulator.trace import Trace

SMALL = Hardware("small", 2, (0.05, 2e-4, 0.0), (0.01, 5e-4, 1e-7), 20_000, max_sequences=16)


def trace_of(
    arrival: list[float] | NDArray[np.float64],
    prompt: float | list[float] | NDArray[np.float64] = 500.0,
    output: float | list[float] | NDArray[np.float64] = 20.0,
    *,
    duration: float | None = None,
    warm_up: float = 0.0,
) -> Trace:
    """Lengths may be one number for all."""
    at = np.asarray(arrival, float)
    end = duration if duration is not None else (float(at[-1]) + 1.0 if len(at) else 1.0)
    return Trace(
        "made", at, np.broadcast_to(np.asarray(prompt, float), at.shape).copy(),
        np.broadcast_to(np.asarray(output, float), at.shape).copy(), end, warm_up,
    )  # fmt: skip


def poisson(rate: float, seconds: float, seed: int = 1, *, prompt: float = 500, output: float = 20) -> Trace:
    """Exponential lengths, rounded up."""
    random = np.random.default_rng(seed)
    count = random.poisson(rate * seconds)
    lengths = [np.ceil(random.exponential(mean, count)) for mean in (prompt, output)]
    return trace_of(np.sort(random.uniform(0, seconds, count)), *lengths, duration=seconds)


def settings(**changes: object) -> FleetSettings:
    """A promise of 1 s and 50 ms, cold starts of exactly 10 s."""
    usual: dict[str, object] = {
        "ttft_seconds": 1.0, "tpot_seconds": 0.05, "cold_start_seconds": 10.0, "cold_start_cv": 0.0,
    }  # fmt: skip
    return FleetSettings(**{**usual, **changes})  # type: ignore[arg-type]


def fleet_of(
    trace: Trace, prefill: int = 1, decode: int = 1, hardware: Hardware = SMALL, **changes: object
) -> Fleet:
    return Fleet(trace, hardware, settings(**changes), prefill, decode)


def run_out(
    trace: Trace, prefill: int = 1, decode: int = 1, hardware: Hardware = SMALL, **changes: object
) -> Result:
    return result(fleet_of(trace, prefill, decode, hardware, **changes))
