"""Every trace that ships, by name."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.azure_2024 import azure_2024
from tandem_autoscaler.simulator.traces.diurnal import bursty_diurnal, slow_diurnal
from tandem_autoscaler.simulator.traces.dynamo_sine import dynamo_sine
from tandem_autoscaler.simulator.traces.idle_spike import idle_spike
from tandem_autoscaler.simulator.traces.mix_shift import mix_shift
from tandem_autoscaler.simulator.traces.recorded import Recording, recorded
from tandem_autoscaler.simulator.traces.servegen import servegen
from tandem_autoscaler.simulator.traces.step import step

_AZURE = "Azure LLM inference trace 2023 (CC-BY-4.0; Splitwise, ISCA'24)"
_RECORDED = {
    "azure-conv-2023": Recording("azure-conv-2023", _AZURE),
    "azure-code-2023": Recording("azure-code-2023", _AZURE),
    "mooncake-conv": Recording(
        "mooncake-conv", "Mooncake conversation trace (Apache-2.0; FAST'25)", quantum_seconds=3.0
    ),
}
_MADE: dict[str, Callable[[str, np.random.Generator, float], Trace]] = {
    "azure-conv-2024": azure_2024,
    "servegen-deepseek-r1": servegen,
    "dynamo-sine": dynamo_sine,
    "step-x4": step,
    "mix-shift": mix_shift,
    "bursty-diurnal": bursty_diurnal,
    "slow-diurnal": slow_diurnal,
    "idle-spike": idle_spike,
}
NAMES: dict[str, str] = {
    "azure-conv-2023": "one recorded hour of a chat service, 5.5 requests/s of 1,155 prompt and 211 output tokens",
    "azure-code-2023": "one recorded hour of code completion, bursts, 2.6 requests/s of 2,048 and 28 tokens",
    "azure-conv-2024": "one weekday of a chat service, 55 requests/s, reconstructed from published figures",
    "mooncake-conv": "one recorded hour of Kimi, 3.4 requests/s of 12,035 prompt and 343 output tokens",
    "servegen-deepseek-r1": "24 h of a reasoning model, 16 requests/s, output tokens 0.4 to 5 times the prompt tokens",
    "dynamo-sine": "NVIDIA Dynamo's planner test: a sine of 5 to 45 requests/s, period 10 minutes",
    "step-x4": "20 requests/s, for twenty minutes 80, then 20 again",
    "mix-shift": "35 requests/s throughout, long prompts, then long answers, then long prompts",
    "bursty-diurnal": "a day in an hour, 15 to 60 requests/s, with bursts",
    "slow-diurnal": "a day in two hours, 15 to 60 requests/s, smooth",
    "idle-spike": "idle, then 60 requests/s for ten minutes, twice",
}


def named(name: str, seed: int, scale: float | None = None, duration: float | None = None) -> Trace:
    """The trace with `scale` times its rate, its first `duration` seconds. The same seed gives the same requests.

    Without a scale a recorded trace is the recording itself, whatever the seed, and a made one has the rate of its
    description. How a recording is scaled: `recorded.superposed`.

    Raises:
        ValueError: there is no such trace, or scale or duration is not above zero. One sentence.
    """
    if name not in NAMES:
        raise ValueError(f"there is no trace {name!r}; there are {', '.join(NAMES)}")
    for what, value in (("scale", scale), ("duration", duration)):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"the {what} of a trace must be above zero, not {value!r}")
    random = np.random.default_rng([seed, *name.encode()])
    make = partial(recorded, name, _RECORDED[name]) if name in _RECORDED else partial(_made, name)
    trace = make(random, scale)
    return trace if duration is None else _first(trace, duration)


def _made(name: str, random: np.random.Generator, scale: float | None) -> Trace:
    return _MADE[name](name, random, 1.0 if scale is None else scale)


def _first(trace: Trace, duration: float) -> Trace:
    count = int(np.searchsorted(trace.arrival, duration, side="left"))
    duration = min(duration, trace.duration_seconds)
    return replace(
        trace,
        arrival=trace.arrival[:count],
        prompt=trace.prompt[:count],
        output=trace.output[:count],
        duration_seconds=duration,
        warm_up_seconds=min(trace.warm_up_seconds, duration / 10),
    )
