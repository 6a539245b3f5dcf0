"""Streaming load on an OpenAI endpoint, timed as a user feels it.

Arrivals are open-loop (Poisson, seeded): a slow answer does not slow the next arrival down, as with real users.
TTFT is the time from sending to the first token, TPOT the mean time per token after it.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

# The tiny model's tokenizer was trained on this sentence, so that a word is about one token.
_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]


@dataclass(frozen=True)
class Traffic:
    """One kind of request and how often it comes."""

    prompt_tokens: int
    output_tokens: int
    requests_per_second: float


@dataclass(frozen=True)
class Answer:
    """One request as its user saw it. `failure` is None when the stream was whole."""

    ended_at: float
    ttft_seconds: float | None
    tpot_seconds: float | None
    tokens: int
    failure: str | None


@dataclass
class Answers:
    """All answers of a run, in the order in which they ended."""

    all: list[Answer] = field(default_factory=list)
    sent: int = 0

    def tail(self, name: str, percentile: float, *, since: float = 0.0) -> float | None:
        """The percentile (0-100) of `ttft_seconds` or `tpot_seconds` of whole answers that ended since then.

        None without any.
        """
        values = sorted(
            value
            for answer in self.all
            if answer.failure is None and answer.ended_at >= since
            if (value := getattr(answer, name)) is not None
        )
        if not values:
            return None
        return float(values[min(len(values) - 1, int(percentile / 100 * len(values)))])

    @property
    def failures(self) -> list[Answer]:
        return [answer for answer in self.all if answer.failure is not None]


def prompt(tokens: int, chooser: random.Random) -> str:
    """About `tokens` tokens of text that no prefix cache has seen."""
    words = [str(chooser.randrange(10**6)), *(chooser.choice(_WORDS) for _ in range(max(1, tokens - 4)))]
    return " ".join(words)


async def ask(
    client: httpx.AsyncClient,
    url: str,
    model: str,
    *,
    text: str,
    output_tokens: int,
    timeout_seconds: float = 300,
) -> Answer:
    """Send one streaming completion and read it to its end."""
    body = {
        "model": model, "prompt": text, "max_tokens": output_tokens, "stream": True, "temperature": 0.0,
        "ignore_eos": True,
    }  # fmt: skip
    started = time.perf_counter()
    first = last = None
    tokens, finish, done = 0, None, False
    try:
        async with client.stream(
            "POST", f"{url}/completions", json=body, timeout=timeout_seconds
        ) as response:
            if response.status_code != 200:
                detail = (await response.aread()).decode(errors="replace")[:200]
                return Answer(time.time(), None, None, 0, f"HTTP {response.status_code}: {detail}")
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                if line == "data: [DONE]":
                    done = True
                    continue
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    return Answer(time.time(), None, None, tokens, f"error in the stream: {chunk['error']}")
                for choice in chunk.get("choices", []):
                    finish = choice.get("finish_reason") or finish
                    if choice.get("text"):
                        last = time.perf_counter()
                        first = first or last
                        tokens += 1
    except (httpx.HTTPError, OSError, ValueError) as error:
        return Answer(time.time(), None, None, tokens, f"{type(error).__name__}: {error}")
    if not done or finish is None or finish == "abort" or first is None or last is None:
        return Answer(
            time.time(),
            None,
            None,
            tokens,
            f"truncated: {tokens} tokens, finish_reason {finish}, done {done}",
        )
    # Empty pieces of text (half a character) make the count of events a lower bound of the tokens.
    per_token = (last - first) / (output_tokens - 1) if output_tokens > 1 else None
    return Answer(time.time(), first - started, per_token, tokens, None)


async def send(
    url: str,
    model: str,
    traffic: Traffic,
    *,
    until: Callable[[], bool],
    answers: Answers,
    seed: int = 0,
    most_seconds: float = 600,
) -> None:
    """Send `traffic` until `until()` is true or `most_seconds` have passed, then wait for the open streams."""
    chooser = random.Random(seed)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client, asyncio.TaskGroup() as group:
        ends = time.monotonic() + most_seconds

        async def one() -> None:
            text = prompt(traffic.prompt_tokens, chooser)
            answers.all.append(await ask(client, url, model, text=text, output_tokens=traffic.output_tokens))

        while not until() and time.monotonic() < ends:
            await asyncio.sleep(chooser.expovariate(traffic.requests_per_second))
            answers.sent += 1
            group.create_task(one())
