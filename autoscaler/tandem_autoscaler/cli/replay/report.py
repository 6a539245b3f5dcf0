"""The replay for people, at a terminal of 80 columns or more."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tandem_autoscaler.cli.replay.play import OURS, Stage
from tandem_autoscaler.cli.replay.recommendation import ROLES, Advice, targets
from tandem_autoscaler.cli.replay.sparkline import sparkline
from tandem_autoscaler.simulator.run import Result

_NAME, _COUNT = 18, 6


def progress(policies: Sequence[str]) -> Iterator[str]:
    """The policies, each announced on stderr where a person watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from policies
        return
    with console.status("") as status:
        for name in policies:
            status.update(f"simulating {name}")
            yield name


def print_report(
    stage: Stage, results: Mapping[str, Result], advice: Advice, *, plot: Path | None = None
) -> None:
    console = Console(file=sys.stdout, highlight=False)
    _head(console, stage)
    console.print(_table(results))
    for role in ROLES:
        _replicas(console, stage, results, role)
    _recommendation(console, stage, advice, listed=OURS in results)
    for note in stage.notes:
        console.print(f"[dim]note: {escape(note)}[/]")
    if plot is not None:
        console.print(f"drawn: {plot}", markup=False)


def _head(console: Console, stage: Stage) -> None:
    trace, targets_ = stage.trace, stage.wish.targets
    minutes, settings = trace.duration_seconds / 60.0, stage.settings
    console.print(
        f"[bold]{stage.service.name}[/] on [bold]{escape(trace.name)}[/], workers {stage.worker.hardware.name}"
    )
    console.print(
        f"{len(trace):,} requests in {minutes:.0f} min, {len(trace) / trace.duration_seconds:.1f}/s of "
        f"{trace.prompt.mean():,.0f} prompt and {trace.output.mean():,.0f} output tokens"
    )
    console.print(
        f"p{100 * targets_.quantile:.0f} TTFT {1000 * settings.ttft_seconds:g} ms, TPOT "
        f"{1000 * settings.tpot_seconds:g} ms; cold start {settings.cold_start_seconds:g} s, late demotion "
        f"{'on' if settings.late_demotion else 'off'}"
    )
    if trace.note:
        console.print(f"[dim]{escape(trace.note)}[/]")


def _table(results: Mapping[str, Result]) -> Table:
    """Shares are of the requests that idle workers would answer in time."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("policy", "TTFT %", "TPOT %", "both %", "GPU-h P", "GPU-h D", "changes", "bad min"):
        made.add_column(column, justify="left" if column == "policy" else "right", no_wrap=True)
    for name, result in results.items():
        attained = result.attainment
        made.add_row(
            name,
            *(f"{100 * share:.2f}" for share in (attained.ttft, attained.tpot, attained.joint)),
            *(f"{hours:.1f}" for hours in (result.gpu_hours_prefill, result.gpu_hours_decode)),
            str(result.counts.actions),
            str(attained.minutes_in_violation),
            style="bold green" if name == OURS else None,
        )
    return made


def _replicas(console: Console, stage: Stage, results: Mapping[str, Result], role: str) -> None:
    """All policies to one scale, so that their heights compare."""
    series = {name: targets(result, role) for name, result in results.items()}
    most = max(int(values.max()) for values in series.values())
    width = min(100, console.width - _NAME - _COUNT - 3)
    console.print(f"{role} replicas, full height {most}")
    for name, values in series.items():
        low, high = int(values.min()), int(values.max())
        span = str(high) if low == high else f"{low}-{high}"
        console.print(f"{name:<{_NAME}} {sparkline(values, width, most)} {span:>{_COUNT}}", no_wrap=True)
    if role == ROLES[-1]:
        rate, _ = np.histogram(
            stage.trace.arrival, bins=np.arange(0.0, stage.trace.duration_seconds + 60.0, 60.0)
        )
        line = sparkline(rate, width, float(rate.max()))
        console.print(f"[dim]{'requests/min':<{_NAME}} {line} {rate.max():>{_COUNT}}[/]", no_wrap=True)
    console.print()


def _recommendation(console: Console, stage: Stage, advice: Advice, *, listed: bool) -> None:
    """`listed`: the table has our policy, so that its figures need not be repeated."""
    quantile = f"p{100 * stage.wish.targets.quantile:.0f}"
    console.print("[bold]recommended[/] (min: the 5th percentile, max: the most that tandem wanted)")
    for found in advice.ranges:
        now = "as the manifest says" if (found.minimum, found.maximum) == found.manifest else (
            f"manifest: {found.manifest[0]} and {found.manifest[1]}"
        )  # fmt: skip
        console.print(
            f"  {found.role:<8} [bold]minReplicas: {found.minimum}  maxReplicas: {found.maximum}[/]  ({now})"
        )
        console.print(f"           {found.why}")
        if found.raised:
            console.print(f"           min raised, because load rises too fast for {quantile} otherwise")
    reached = f"{100 * advice.joint_attainment:.2f} % meet both targets, at {advice.gpu_hours:.1f} GPU-hours"
    if not advice.kept:
        console.print(f"[yellow]no minReplicas found keeps {quantile}: with that range {reached}[/]")
    elif not listed or advice.held_back or any(found.raised for found in advice.ranges):
        console.print(f"with that range {reached}")
    share = advice.infeasible_share
    if share:
        console.print(
            f"[yellow]{100 * share:.2g} % of the prompts take longer than the TTFT target even on idle workers: no "
            "number of workers serves them in time, and the shares above are without them[/]"
        )
    else:
        console.print("idle workers would answer every prompt within the TTFT target")
    console.print(
        f"not counted: the first {stage.trace.warm_up_seconds:.0f} s, in which every policy warms up"
    )
