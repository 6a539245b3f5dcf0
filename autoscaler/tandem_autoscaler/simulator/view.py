"""What a policy may look at. Everything here could be measured in a real fleet at that moment."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RoleView:
    """One role's workers. Arrays hold one entry per ready worker that is not draining, in a stable order."""

    target: int  # replicas asked for: ready + starting (+ on their way here by a flip)
    ready: int
    starting: int
    draining: int  # still hold their GPUs
    running: NDArray[np.float64]  # sequences in the engine
    waiting: NDArray[np.float64]  # requests queued at the worker
    waiting_tokens: NDArray[np.float64]  # prompt tokens of those
    kv_usage: NDArray[np.float64]  # share, 0 to 1


@dataclass(frozen=True)
class FleetView:
    """The fleet at `now_seconds`, and cumulative counts since the trace began.

    Tail times are of requests that got their first token (or finished) since the last view.
    """

    now_seconds: float
    prefill: RoleView
    decode: RoleView
    arrived: int
    prefilled: int
    finished: int
    prompt_tokens_arrived: float
    prompt_tokens_prefilled: float
    output_tokens_made: float
    preemptions: int
    router_waiting: int  # requests that no worker has taken
    decode_waiting: int  # prefilled, waiting for room in decode
    new_ttft_seconds: NDArray[np.float64]
    new_tpot_seconds: NDArray[np.float64]
    # The arrivals so far as a gateway logs them, oldest first (views, do not write).
    arrival: NDArray[np.float64]
    prompt: NDArray[np.float64]
    # Requests finished since the last view.
    new_finished_prompt: NDArray[np.float64]
    new_finished_output: NDArray[np.float64]
