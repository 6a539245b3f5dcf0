"""The last paragraph: what the rows say for and against ours, computed from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tandem_autoscaler.benchmark.contenders import OURS
from tandem_autoscaler.benchmark.frontier import Mean, Point, cost_at, mean
from tandem_autoscaler.benchmark.row import Row, gpu_hours

PROMISE = 0.99
NEAR_HINDSIGHT = 1.10
# These know what no operator can know beforehand, and are no competitors.
CLAIRVOYANT = frozenset({"oracle_model"})


@dataclass(frozen=True)
class Comparison:
    """Ours against one policy's frontier at our attainment, seed by seed.

    `ratio`: our GPU-hours over theirs, over the seeds where theirs gets as far; None: on no seed.
    """

    trace: str
    policy: str
    ratio: Mean | None
    seeds: int
    reached: int

    @property
    def outcome(self) -> str:
        """ "ahead", "tie" or "behind"; a tie where the confidence interval (or, with one seed, 2 %) holds 1."""
        if self.ratio is None:
            return "ahead"
        slack = 0.02 if self.ratio.half is None else 0.0
        if self.ratio.high < 1.0 - slack:
            return "ahead"
        return "behind" if self.ratio.low > 1.0 + slack else "tie"


def compare(rows: Sequence[Row], sweeps: Sequence[Row]) -> list[Comparison]:
    """`rows` of the main set, `sweeps` of the same traces and seeds. Of several rows of ours the published defaults."""
    ours: dict[tuple[str, int], Row] = {}
    for row in rows:
        if row["policy"] == OURS:
            ours.setdefault((row["trace"], row["seed"]), row)
            if not row["tuned"]:
                ours[row["trace"], row["seed"]] = row
    found: list[Comparison] = []
    lines = _lines([*rows, *sweeps])
    for trace, policy in dict.fromkeys((trace, policy) for trace, policy, _ in lines):
        if policy.startswith(OURS) or policy in CLAIRVOYANT:
            continue
        ratios, seeds = [], 0
        for (at, seed), mine in ours.items():
            line = lines.get((trace, policy, seed))
            if at != trace or line is None:
                continue
            seeds += 1
            theirs = cost_at(line, mine["joint_attainment"])
            if theirs is not None:
                ratios.append(gpu_hours(mine) / theirs)
        if seeds:
            found.append(Comparison(trace, policy, mean(ratios) if ratios else None, seeds, len(ratios)))
    return found


def _lines(rows: Iterable[Row]) -> dict[tuple[str, str, int], list[Point]]:
    lines: dict[tuple[str, str, int], list[Point]] = {}
    for row in rows:
        lines.setdefault((row["trace"], row["policy"], row["seed"]), []).append(
            Point(gpu_hours(row), row["joint_attainment"])
        )
    return lines


def verdict(rows: Sequence[Row], sweeps: Sequence[Row]) -> str:
    """Plain sentences. Empty when ours is not among the rows."""
    ours = [row for row in rows if row["policy"] == OURS and not row["tuned"]]
    if not ours:
        return ""
    lines = [
        "At our attainment, our GPU-hours over theirs (their best constant for each seed, known afterwards):"
    ]
    comparisons = compare(rows, sweeps)
    for trace in dict.fromkeys(row["trace"] for row in ours):
        mine = [row for row in ours if row["trace"] == trace]
        attained = mean([row["joint_attainment"] for row in mine])
        ratios = [row["oracle_ratio"] for row in mine if row["oracle_ratio"] is not None]
        against = (
            f"{mean(ratios).value:.2f} x hindsight" if ratios else "above what hindsight was searched for"
        )
        parts = {"behind": [], "tie": [], "ahead": []}  # type: dict[str, list[str]]
        for comparison in comparisons:
            if comparison.trace == trace:
                parts[comparison.outcome].append(_named(comparison))
        said = [
            f"{word} {', '.join(parts[outcome])}"
            for outcome, word in (("behind", "BEHIND"), ("tie", "tied with"), ("ahead", "ahead of"))
            if parts[outcome]
        ]
        lines.append(
            f"  {trace}: {attained.value:.2%} at {against}; {'; '.join(said) or 'nobody to compare'}."
        )
    kept = [trace for trace in dict.fromkeys(row["trace"] for row in ours) if _keeps(trace, ours)]
    lines.append(
        f"{PROMISE:.0%} at no more than {NEAR_HINDSIGHT:.2f} x hindsight: {', '.join(kept) or 'on no trace'}."
    )
    return "\n".join(lines)


def _keeps(trace: str, ours: Sequence[Row]) -> bool:
    mine = [row for row in ours if row["trace"] == trace]
    ratios = [row["oracle_ratio"] for row in mine if row["oracle_ratio"] is not None]
    attained = mean([row["joint_attainment"] for row in mine]).value
    return bool(ratios) and keeps_promise(attained) and mean(ratios).value <= NEAR_HINDSIGHT


def keeps_promise(attainment: float) -> bool:
    """Up to the rounding of a mean."""
    return attainment >= PROMISE - 1e-9


def _named(comparison: Comparison) -> str:
    if comparison.ratio is None:
        return f"{comparison.policy} (never gets there)"
    spread = "" if comparison.ratio.half is None else f"+-{comparison.ratio.half:.2f}"
    missing = comparison.seeds - comparison.reached
    some = f", not there on {missing} of {comparison.seeds} seeds" if missing else ""
    return f"{comparison.policy} ({comparison.ratio.value:.2f}{spread}{some})"
