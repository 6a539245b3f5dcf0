"""A table per trace and set, for the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tandem_autoscaler.benchmark.contenders import OURS
from tandem_autoscaler.benchmark.frontier import Mean, mean
from tandem_autoscaler.benchmark.row import Row, gpu_hours
from tandem_autoscaler.benchmark.verdict import keeps_promise


def print_tables(console: Console, rows: Sequence[Row]) -> None:
    for name in dict.fromkeys(row["set"] for row in rows):
        for trace in dict.fromkeys(row["trace"] for row in rows if row["set"] == name):
            console.print(table(name, [row for row in rows if row["set"] == name and row["trace"] == trace]))


def table(set_name: str, rows: Sequence[Row]) -> Table:
    """Those that keep 99 % first, the cheapest on top; then by attainment. One line per policy and condition."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_condition(row), []).append(row)
    seeds = sorted({row["seed"] for row in rows})
    made = Table(
        title=f"{rows[0]['trace']} ({set_name}): mean and 95 % confidence interval over seeds {_listed(seeds)}",
        title_justify="left",
    )
    for column in (
        "policy", "TTFT %", "TPOT %", "both %", "GPU-h P", "GPU-h D", "/ hindsight", "req/GPU-s", "actions", "back",
        "min bad",
    ):  # fmt: skip
        made.add_column(column, justify="left" if column == "policy" else "right", no_wrap=True)
    for condition, group in sorted(groups.items(), key=lambda item: _rank(item[1])):
        ratios = [row["oracle_ratio"] for row in group if row["oracle_ratio"] is not None]
        made.add_row(
            " ".join(part for part in condition if part),
            *(
                _percent(mean([row[f"{which}_attainment"] for row in group]))
                for which in ("ttft", "tpot", "joint")
            ),
            *(
                _figure(mean([row[f"gpu_hours_{role}"] for row in group]), 1)
                for role in ("prefill", "decode")
            ),
            _figure(mean(ratios), 2) if ratios else "-",
            _figure(mean([row["goodput_per_gpu"] for row in group]), 3),
            *(f"{mean([row[key] for row in group]).value:.0f}" for key in ("actions", "reversals")),
            f"{mean([row['minutes_in_violation'] for row in group]).value:.1f}",
            style="bold green" if condition[0].startswith(OURS) else None,
        )
    return made


def _condition(row: Row) -> tuple[str, ...]:
    """Policy first, then all that is not as usual."""
    error, cold = row["model_error"], row["cold_start_seconds"]
    return (
        row["policy"],
        "tuned" if row["tuned"] else "",
        f"cold {cold:g} s" if cold != 40.0 else "",
        f"model {error:+.0%}" if error else "",
        f"outage {row['outage']}" if row["outage"] else "",
        row["router"] if row["router"] != "least_work" else "",
    )


def _rank(rows: Sequence[Row]) -> tuple[float, ...]:
    joint = mean([row["joint_attainment"] for row in rows]).value
    if keeps_promise(joint):
        return (0.0, mean([gpu_hours(row) for row in rows]).value)
    return (1.0, -joint)


def _percent(value: Mean) -> str:
    half = "" if value.half is None else f" ±{100 * value.half:.2f}"
    return f"{100 * value.value:.2f}{half}"


def _figure(value: Mean, digits: int) -> str:
    half = "" if value.half is None else f" ±{value.half:.{digits}f}"
    return f"{value.value:.{digits}f}{half}"


def _listed(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))
