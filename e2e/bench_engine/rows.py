"""Rows of build/bench/engine.json, the table of them, and what one case is against another. Pure."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from e2e.bench_engine.load import Answer, Measured

_STEADY = 1.5


@dataclass(frozen=True)
class Row:
    """One case. Times are those of the requests that `counted` names; None: none of them has one.

    `chunk_tokens`: most tokens of one step (max_num_batched_tokens); None: prompts are not cut.
    """

    case: str
    chunk_tokens: int | None
    long_prompt_threshold: int | None
    counted: str
    requests: int
    failed: int
    ttft_p50_seconds: float | None
    ttft_p95_seconds: float | None
    tpot_p50_seconds: float | None
    tpot_p95_seconds: float | None
    output_tokens_per_second: float
    long_ttft_p50_seconds: float | None = None
    took_seconds: float = 0.0
    alone_seconds: float | None = None  # of a long prompt by itself, just before


def row(
    case: str,
    measured: Measured,
    *,
    chunk_tokens: int | None = None,
    threshold: int | None = None,
    counted: str = "all",
    most_tokens: int | None = None,
) -> Row:
    """Of the requests whose prompt has at most `most_tokens` (None: of all)."""
    chosen = [one for one in measured.answers if most_tokens is None or one.prompt_tokens <= most_tokens]
    longer = [one for one in measured.answers if most_tokens is not None and one.prompt_tokens > most_tokens]
    ttft, tpot = _sorted(chosen, lambda one: one.ttft_seconds), _sorted(chosen, lambda one: one.tpot_seconds)
    return Row(
        case, chunk_tokens, threshold, counted, len(chosen), sum(bool(one.failure) for one in measured.answers),
        percentile(ttft, 0.50), percentile(ttft, 0.95), percentile(tpot, 0.50), percentile(tpot, 0.95),
        measured.output_tokens_per_second, percentile(_sorted(longer, lambda one: one.ttft_seconds), 0.50),
        measured.seconds,
    )  # fmt: skip


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """With linear interpolation between neighbours, as numpy's default; None of nothing."""
    if not ascending:
        return None
    place = share * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def table(rows: Iterable[Row]) -> str:
    """Markdown."""
    lines = [
        "| case | requests | TTFT p50 s | p95 s | TPOT p50 ms | p95 ms | tokens/s | long prompts' TTFT p50 s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        failed = f", {one.failed} failed" if one.failed else ""
        lines.append(
            f"| {one.case} | {one.requests} {one.counted}{failed} | {_number(one.ttft_p50_seconds)} "
            f"| {_number(one.ttft_p95_seconds)} | {_number(one.tpot_p50_seconds, 1e3)} "
            f"| {_number(one.tpot_p95_seconds, 1e3)} | {one.output_tokens_per_second:.0f} "
            f"| {_number(one.long_ttft_p50_seconds)} |"
        )
    return "\n".join(lines)


def effect(rows: Sequence[Row], before: str, after: str) -> str | None:
    """By how much the p95 of both promises fell, in one sentence; None where one of the cases was not run."""
    found = {one.case: one for one in rows}
    if before not in found or after not in found:
        return None
    old, new = found[before], found[after]
    ttft = _change(old.ttft_p95_seconds, new.ttft_p95_seconds)
    tpot = _change(old.tpot_p95_seconds, new.tpot_p95_seconds)
    tokens = _change(old.output_tokens_per_second, new.output_tokens_per_second)
    return f"{after}, against {before}: TTFT p95 {ttft}, TPOT p95 {tpot}, tokens/s {tokens}"


def disturbed(rows: Sequence[Row]) -> str | None:
    """A sentence where a long prompt alone took very different times from case to case: then other work was measured.

    Chunks lengthen it too, by a quarter on the CPU; half as much again is no chunk's doing.
    """
    alone = [one.alone_seconds for one in rows if one.alone_seconds is not None]
    if len(alone) < 2 or max(alone) <= _STEADY * min(alone):
        return None
    return (
        f"a long prompt alone took {min(alone):.1f} to {max(alone):.1f} s: the machine was not quiet, and these cases "
        "do not compare"
    )


def merge(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rows; those of cases that were not run now stay as they are."""
    run = {one["case"] for one in rows}
    try:
        old = json.loads(file.read_text())
    except (OSError, ValueError):
        old = []
    kept = [one for one in old if isinstance(one, dict) and "case" in one and one["case"] not in run]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([*kept, *rows], indent=1) + "\n")


def plain(row: Row) -> dict[str, Any]:
    return asdict(row)


def _sorted(answers: Iterable[Answer], value: Callable[[Answer], float | None]) -> list[float]:
    return sorted(found for one in answers if (found := value(one)) is not None)


def _change(before: float | None, after: float | None) -> str:
    return "?" if not before or after is None else f"{100 * (after / before - 1):+.0f} %"


def _number(value: float | None, factor: float = 1.0) -> str:
    return "-" if value is None else f"{factor * value:.3g}"
