"""What each number of a decision means, in the order in which they are best read. For terminal and web page alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tandem_api.durations import format_seconds
from tandem_autoscaler.decide.words import rounded


@dataclass(frozen=True)
class Meaning:
    """`unit`: seconds, share, or a word that follows the number."""

    words: str
    unit: str


MEANINGS: Final = {
    "promptsPerSecond": Meaning("prompts that arrive", "/s"),
    "promptTokens": Meaning("mean prompt", "tokens"),
    "secondsPerPrompt": Meaning("one worker's time for a prompt", "seconds"),
    "busyWorkers": Meaning("workers that this keeps busy", "workers"),
    "promptsPerSecondAhead": Meaning("prompts to be ready for when a new worker serves", "/s"),
    "arrivalScv": Meaning("burstiness of the arrivals (1: random)", ""),
    "predictedViolation": Meaning("late prompts that the model predicts", "share"),
    "allowedViolation": Meaning("late prompts that are allowed", "share"),
    "requestsPerWorker": Meaning("requests that one worker serves with both promises kept", "/s"),
    "tokensPerSecond": Meaning("output tokens that are asked for", "/s"),
    "outputTokens": Meaning("mean answer", "tokens"),
    "contextTokens": Meaning("tokens that a sequence holds in the KV cache", "tokens"),
    "tokensPerSecondAhead": Meaning("output tokens to be ready for when a new worker serves", "/s"),
    "batchLimit": Meaning("sequences per worker at which TPOT is just kept", "sequences"),
    "batch": Meaning("sequences per worker with so many workers", "sequences"),
    "secondsPerToken": Meaning("time per token with that batch", "seconds"),
    "need": Meaning("workers needed", "workers"),
    "demandRatio": Meaning("highest demand within a cold start, over the present one", ""),
    "coldStartSeconds": Meaning("cold start", "seconds"),
    "promptBaseSeconds": Meaning("learnt: time per prompt", "seconds"),
    "promptSecondsPerToken": Meaning("learnt: and per prompt token", "seconds"),
    "stepBaseSeconds": Meaning("learnt: time per decode step", "seconds"),
    "stepSecondsPerSequence": Meaning("learnt: and per sequence in the batch", "seconds"),
    "stepSecondsPerContextToken": Meaning("learnt: and per token of their contexts", "seconds"),
}


def explained(numbers: Mapping[str, str]) -> list[tuple[str, str]]:
    """(words, value), known numbers first; one that is not known keeps its own name."""
    known = [
        (MEANINGS[name].words, _value(numbers[name], MEANINGS[name].unit))
        for name in MEANINGS
        if name in numbers
    ]
    return known + [(name, str(value)) for name, value in numbers.items() if name not in MEANINGS]


def _value(text: str, unit: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return text
    if unit == "share":
        return f"{value:.1%}"
    if unit == "seconds":
        return f"{value * 1e6:.3g}us" if 0 < value < 1e-4 else format_seconds(value)
    plain = rounded(value, 3)
    return f"{plain}{unit}" if unit.startswith("/") else f"{plain} {unit}".strip()
