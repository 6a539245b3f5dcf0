"""The need on the true arrivals of each 30 s, present exactly on time (ALGORITHM section 6, oracle a).

It knows the trace but trusts the formula, so it is no bound: `hindsight` searches for one.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.policies.need import decode_need, prefill_need
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.schedule import SLOT_SECONDS, Schedule
from tandem_autoscaler.simulator.trace import Trace

WINDOW_SECONDS = 30.0


def true_needs(
    trace: Trace, profile: Profile, allowance: float, headroom: float = 1.0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(prefill, decode) workers per slot of 15 s."""
    windows = int(np.ceil(trace.duration_seconds / WINDOW_SECONDS))
    edges = np.searchsorted(trace.arrival, WINDOW_SECONDS * np.arange(windows + 1))
    prefill, decode = [], []
    for start, end in itertools.pairwise(edges):
        prompts, outputs = trace.prompt[start:end], trace.output[start:end]
        rate = headroom * len(prompts) / WINDOW_SECONDS
        prefill.append(prefill_need(profile, rate, prompts, allowance=allowance))
        decode.append(
            decode_need(profile, rate, float(prompts.mean()), float(outputs.mean())) if len(prompts) else 1
        )
    repeat = int(WINDOW_SECONDS / SLOT_SECONDS)
    return np.repeat(np.array(prefill), repeat), np.repeat(np.array(decode), repeat)


def oracle_model(trace: Trace, profile: Profile, *, allowance: float = 0.0375) -> Schedule:
    """The default allows 0.8 x 0.0375 = 3 % of late prompts, the oracle that ALGORITHM section 7 divides by."""
    prefill, decode = true_needs(trace, profile, allowance)
    return Schedule(list(prefill), list(decode), profile.cold_start_seconds, name="oracle_model")
