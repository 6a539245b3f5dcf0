"""The workers that a load needs, from the hardware's true times (ALGORITHM 4.3 and 4.4)."""

import math

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.model.queueing import POOLED_POLICIES, Distribution, smallest_pool
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.profile import SAFETY, Profile, batch_seconds, largest_batch

# Square-root staffing of decode workers (ALGORITHM 4.4).
STAFFING = 1.5
# ALGORITHM 4.3: two random choices lose about a tenth against one common queue.
POWER_OF_TWO = 1.1
_POINTS = 48
_SAMPLE = 4000


def service_distribution(hardware: Hardware, prompts: NDArray[np.float64]) -> Distribution:
    """Service times at evenly spaced quantiles of the prompt lengths, so that long prompts keep their weight."""
    # Every k-th of many prompts tells the same.
    ordered = np.sort(prompts[:: max(1, len(prompts) // _SAMPLE)])
    if len(ordered) > _POINTS:
        each, more = divmod(len(ordered), _POINTS)
        sizes = np.full(_POINTS, each) + (np.arange(_POINTS) < more)
        ordered = np.add.reduceat(ordered, np.cumsum(sizes) - sizes) / sizes
    return [(hardware.prefill_seconds(float(tokens)), 1.0 / len(ordered)) for tokens in ordered]


def prefill_need(
    profile: Profile, arrivals: float, prompts: NDArray[np.float64], *, allowance: float = 0.05,
    arrival_scv: float = 1.0,
) -> int:  # fmt: skip
    """min{c > R : P_viol(c) <= 0.8 allowance} at `arrivals` per second of these prompts; at least 1."""
    if arrivals <= 0 or len(prompts) == 0:
        return 1
    hardware = profile.hardware
    batch = largest_batch(hardware, profile.tpot_seconds, profile.prompt_tokens, profile.output_tokens)
    # A prompt that was handed over waits for half an iteration on average, and its token takes one.
    first_token = 1.5 * batch_seconds(hardware, batch, profile.prompt_tokens, profile.output_tokens)
    left = SAFETY * profile.ttft_seconds - hardware.transfer_seconds(float(prompts.mean())) - first_token
    sizing = smallest_pool(
        arrivals,
        service_distribution(hardware, prompts),
        left,
        allowance,
        arrival_scv=arrival_scv,
        pooled=profile.router in POOLED_POLICIES,
    )
    factor = POWER_OF_TWO if profile.router == "power_of_two" else 1.0
    return max(1, math.ceil(factor * sizing.workers - 1e-9))


def decode_need(profile: Profile, arrivals: float, prompt: float, output: float) -> int:
    """min{N : A/N + z sqrt(A/N) <= B*} with A = arrivals x output x tau(B*) sequences; at least 1."""
    if arrivals <= 0:
        return 1
    batch = largest_batch(profile.hardware, profile.tpot_seconds, prompt, output)
    sequences = arrivals * output * batch_seconds(profile.hardware, batch, prompt, output)
    # x + z sqrt(x) = B* solved for x, the mean batch that leaves room for its fluctuation.
    mean = (math.sqrt(STAFFING * STAFFING / 4.0 + batch) - STAFFING / 2.0) ** 2
    return max(1, math.ceil(sequences / mean - 1e-9))
