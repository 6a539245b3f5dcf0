"""What is compared with what. A group's cases get the same requests at the same moments, one engine after the other."""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from e2e.bench_engine import engine
from e2e.bench_engine.load import LoadError, Measured, send
from e2e.bench_engine.rows import Row, row
from e2e.bench_engine.traffic import SHORT_TOKENS, Ask, agents, at_once, short_among_long

Start = Callable[[Path, Path, Path, Sequence[str]], AbstractContextManager[str]]
UNCHUNKED = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", str(engine.MOST_TOKENS))
NO_CACHE = ("--no-enable-prefix-caching",)
_FIRST = 3  # long prompts alone, before what is measured


@dataclass(frozen=True)
class Case:
    """One engine, or two behind a router."""

    name: str
    flags: tuple[str, ...]
    start: Start = engine.engine
    chunk_tokens: int | None = None
    threshold: int | None = None


@dataclass(frozen=True)
class Group:
    """`asks` makes the traffic from what a long prompt takes alone on the group's first case, in seconds.

    `short_only`: the rows tell of the short prompts; the long ones are there to be in their way.
    """

    cases: tuple[Case, ...]
    long_tokens: int
    asks: Callable[[float], list[Ask]]
    short_only: bool = False


def chunked(budget: int, threshold: int | None = None) -> Case:
    """A step of at most `budget` tokens, of which one prompt gets at most `threshold`."""
    flags = ["--enable-chunked-prefill", "--max-num-batched-tokens", str(budget)]
    name = f"chunks of {budget}"
    if threshold is not None:
        flags += ["--long-prefill-token-threshold", str(threshold)]
        name += f", {threshold} of one prompt"
    return Case(name, (*flags, *NO_CACHE), chunk_tokens=budget, threshold=threshold)


def groups(*, quick: bool, fp8_kv: bool) -> dict[str, Group]:
    """By name, in the order in which they are run."""
    rounds, long = (6, 1_792) if quick else (14, 3_520)
    budgets = [chunked(256), chunked(256, 128), chunked(512, 256)]
    if not quick:
        budgets += [chunked(512), chunked(512, 128), chunked(2048), chunked(2048, 512)]
    apart = [
        Case("colocated, two workers of half the cores", NO_CACHE, partial(engine.pair, apart=False)),
        Case(
            "disaggregated, one worker for prompts and one for answers",
            NO_CACHE,
            partial(engine.pair, apart=True),
        ),
    ]
    batches = [
        Case("one request at a time", ("--max-num-seqs", "1", *NO_CACHE)),
        Case("continuous batching", ("--max-num-seqs", "32", *NO_CACHE)),
    ]
    if fp8_kv:
        batches.append(
            Case(
                "continuous batching, KV cache in fp8",
                ("--max-num-seqs", "32", "--kv-cache-dtype", "fp8", *NO_CACHE),
            )
        )
    return {
        "chunking": Group(
            (Case("chunked prefill off", (*UNCHUNKED, *NO_CACHE)), *budgets), long,
            lambda alone: short_among_long(alone, long_tokens=long, long_prompts=rounds, seed=1), short_only=True,
        ),
        "disaggregation": Group(
            tuple(apart), long,
            lambda alone: short_among_long(
                alone, long_tokens=long, long_prompts=rounds // 2, seed=2, output_tokens=64
            ), short_only=True,
        ),
        "prefix-caching": Group(
            (Case("prefix caching off", NO_CACHE), Case("prefix caching on", ("--enable-prefix-caching",))), long,
            lambda alone: agents(alone, turns=4 if quick else 10, seed=3),
        ),
        "batching": Group(
            tuple(batches), long,
            lambda _: at_once(8 if quick else 24, prompt_tokens=128, output_tokens=64, seed=4),
        ),
    }  # fmt: skip


def run(group: Group, python: Path, model: Path) -> Iterator[Row]:
    """One row per case, as soon as it is measured. Raises NotStarted, LoadError."""
    long_seconds: float | None = None
    for case in group.cases:
        with (
            tempfile.TemporaryDirectory(prefix="tandem-engine-") as name,
            case.start(python, model, Path(name), case.flags) as url,
        ):
            if long_seconds is None:
                long_seconds = _alone(python, url, model, group.long_tokens)
            measured, alone = _measure(python, url, model, group, long_seconds)
            yield replace(_row(group, case, measured), alone_seconds=alone)


def _measure(
    python: Path, url: str, model: Path, group: Group, long_seconds: float
) -> tuple[Measured, float | None]:
    """(what was measured, seconds of a long prompt alone). Some long prompts are sent before, and are not counted.

    The first requests of an engine are slower, and one may meet a pause of the machine: the quickest of them tells
    whether the machine is still as fast as it was when the traffic was paced.
    """
    apart = 2.5 * long_seconds  # each is through before the next
    first = [
        replace(ask, at_seconds=apart * number)
        for number, ask in enumerate(
            at_once(_FIRST, prompt_tokens=group.long_tokens, output_tokens=2, seed=98)
        )
    ]
    later = apart * _FIRST
    sent = [*first, *(replace(ask, at_seconds=ask.at_seconds + later) for ask in group.asks(long_seconds))]
    measured = send(python, url, model, sent)
    answers = measured.answers[_FIRST:]
    seconds = max(measured.seconds - later, 1e-9)
    counted = Measured(answers, seconds, sum(one.output_tokens for one in answers) / seconds)
    alone = [one.ttft_seconds for one in measured.answers[:_FIRST] if one.ttft_seconds is not None]
    return counted, min(alone, default=None)


def _row(group: Group, case: Case, measured: Measured) -> Row:
    return row(
        case.name, measured, chunk_tokens=case.chunk_tokens, threshold=case.threshold,
        counted="short" if group.short_only else "all", most_tokens=SHORT_TOKENS if group.short_only else None,
    )  # fmt: skip


def _alone(python: Path, url: str, model: Path, long_tokens: int) -> float:
    """Seconds that a long prompt takes by itself, of a warm engine."""
    asks = at_once(4, prompt_tokens=long_tokens, output_tokens=2, seed=99)
    times = [one.ttft_seconds for one in send(python, url, model, asks, concurrency=1).answers[1:]]
    known = [seconds for seconds in times if seconds is not None]
    if not known:
        raise LoadError("the engine answered none of the first requests")
    return statistics.median(known)
