"""The histograms that a worker exports, with the edges of vLLM and of our gate."""

import math
from collections.abc import Sequence

# By the signal names of signals/metric_names.py, in the order of core.py's columns.
SIGNALS = (
    "gate_ttft", "gate_tpot", "ttft", "tpot", "inter_token", "queue", "prefill",
    "prompt_tokens", "output_tokens", "step_tokens", "gate_prompt_tokens",
)  # fmt: skip

# The gate's: a test holds them against tandem_worker.gate.
_GATE_TTFT = (
    0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0,
    15.0, 20.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
_GATE_TPOT = (
    0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.15, 0.2, 0.3,
    0.5, 0.75, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
_AROUND_TARGET = (0.5, 0.8, 1.25, 2.0)
_GATE_PROMPT = tuple(2.0 ** (k / 2) for k in range(10, 35))

# vLLM's (0.18 to 0.32).
_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_SECONDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
# Up to the model's length, here 128 k.
_TOKENS = tuple(float(digit * 10**power) for power in range(6) for digit in (1, 2, 5))[:-2]
_STEP = tuple(2.0**k for k in (0, *range(3, 15)))


def edges(ttft_seconds: float, tpot_seconds: float) -> tuple[Sequence[float], ...]:
    """One tuple of edges per signal, each ending with +inf; the gate's hold the targets exactly."""
    made = (
        _with_target(_GATE_TTFT, ttft_seconds), _with_target(_GATE_TPOT, tpot_seconds), _TTFT, _PER_TOKEN, _PER_TOKEN,
        _SECONDS, _SECONDS, _TOKENS, _TOKENS, _STEP, _GATE_PROMPT,
    )  # fmt: skip
    return tuple((*some, math.inf) for some in made)


def _with_target(some: Sequence[float], target: float) -> tuple[float, ...]:
    return tuple(sorted({*some, *(round(target * factor, 9) for factor in _AROUND_TARGET), target}))
