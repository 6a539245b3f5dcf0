"""Who asks when for how much. Pure: a seed gives the same requests again.

The trace is written as `vllm bench serve --dataset-name timed_trace` reads it: one JSON object per request, whose
`hash_ids` name the pieces of CHUNK tokens that its prompt consists of; equal ids are equal tokens.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

CHUNK = 64  # tokens of one id
SHORT_TOKENS = 64


@dataclass(frozen=True)
class Ask:
    """One request. `chunks` are the ids of its prompt's pieces."""

    at_seconds: float
    chunks: tuple[int, ...]
    output_tokens: int

    @property
    def prompt_tokens(self) -> int:
        return CHUNK * len(self.chunks)


def short_among_long(
    long_seconds: float, *, long_tokens: int, long_prompts: int, seed: int, output_tokens: int = 16
) -> list[Ask]:
    """Short prompts (Poisson) while a long one comes every 2.3 times as long as it takes alone.

    `long_seconds`: what one long prompt takes by itself. So the long ones keep the engine busy 43 % of the time
    whatever the machine, and about five short ones arrive for each of them.
    """
    every, rate = 2.3 * long_seconds, 2.2 / long_seconds
    chooser, fresh = random.Random(seed), count(1_000_000 * (seed + 1))
    asks = [
        Ask(every * (number + 0.5), _unique(fresh, long_tokens), output_tokens)
        for number in range(long_prompts)
    ]
    at = chooser.expovariate(rate)
    while at < every * long_prompts:
        asks.append(Ask(at, _unique(fresh, SHORT_TOKENS), output_tokens))
        at += chooser.expovariate(rate)
    return sorted(asks, key=lambda ask: ask.at_seconds)


def agents(long_seconds: float, *, turns: int, sessions: int = 4, seed: int) -> list[Ask]:
    """Agents that talk in turns: each prompt is the whole conversation so far and a little more.

    A session begins with 1,024 tokens of instructions, the same for all, and grows by 128 tokens per turn.
    """
    chooser, fresh = random.Random(seed), count(1_000_000 * (seed + 1))
    instructions = _unique(fresh, 1_024)
    talks = [list(instructions) for _ in range(sessions)]
    asks, at = [], 0.0
    for turn in range(turns * sessions):
        talk = talks[turn % sessions]
        talk += _unique(fresh, 128)
        at += chooser.expovariate(1.2 / long_seconds)
        asks.append(Ask(at, tuple(talk), 16))
    return asks


def at_once(requests: int, *, prompt_tokens: int, output_tokens: int, seed: int) -> list[Ask]:
    """All in the same moment."""
    fresh = count(1_000_000 * (seed + 1))
    return [Ask(0.0, _unique(fresh, prompt_tokens), output_tokens) for _ in range(requests)]


def trace(asks: Sequence[Ask]) -> str:
    """The file's text."""
    return "".join(
        json.dumps({
            "timestamp": round(ask.at_seconds, 4), "input_length": ask.prompt_tokens,
            "output_length": ask.output_tokens, "hash_ids": list(ask.chunks),
        }) + "\n"
        for ask in asks
    )  # fmt: skip


def _unique(fresh: "count[int]", tokens: int) -> tuple[int, ...]:
    """Pieces that no other prompt has."""
    return tuple(next(fresh) for _ in range(tokens // CHUNK))
