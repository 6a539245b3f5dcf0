"""The diagnosis for people, at a terminal of 80 columns or more."""

from rich.markup import escape

from tandem_autoscaler.cli import modes, output
from tandem_autoscaler.cli.diagnose.watch import Seen
from tandem_autoscaler.diagnose.bottleneck import Bottleneck
from tandem_autoscaler.diagnose.chunking import Tuned, Tuning
from tandem_autoscaler.diagnose.diagnosis import Diagnosis
from tandem_autoscaler.diagnose.fixes import Fix, written

_COLOURS = {Bottleneck.HEALTHY: "green", Bottleneck.UNKNOWN: "yellow"}


def print_diagnosis(seen: Seen, found: Diagnosis) -> None:
    console = output.console()
    colour = _COLOURS.get(found.bottleneck, "red")
    service = seen.service
    console.print(
        f"[bold]{escape(service.namespace)}/{escape(service.name)}[/] is [bold {colour}]{found.bottleneck}[/]: "
        f"{escape(found.sentence)}"
    )
    made = output.table("evidence")
    made.columns[0].no_wrap = False
    for text in found.evidence:
        made.add_row(escape(text))
    if found.evidence:
        console.print(made)
    if found.fixes:
        made = output.table("", "what helps, best first", "in time", "GPUs", left=2)
        made.columns[1].no_wrap = False
        for number, fix in enumerate(found.fixes, 1):
            share = "?" if fix.in_time is None else f"{fix.in_time:.0%}"
            made.add_row(str(number), f"[bold]{fix.kind}[/]: {escape(fix.change)}", share, _gpus(fix))
        console.print(made)
        console.print(
            "[dim]in time: requests that keep both promises, predicted for a tenth more load; GPUs: + more, "
            "= as many of another kind[/]"
        )
    for line in (_chunks(found.tuned), None if found.modes is None else modes.sentence(found.modes)):
        if line is not None:
            console.print(line)
    if seen.note is not None:
        console.print(f"[yellow]{escape(seen.note)}[/]")


def _chunks(tuned: Tuned | None) -> str | None:
    if tuned is None:
        return None
    now, best = tuned.now, tuned.best
    if not tuned.worth_a_restart:
        return (
            f"[bold]chunks[/]: {written(now.chunking)} is as good as any for this traffic ({_workers(now)})"
        )
    return (
        f"[bold]chunks[/]: {written(best.chunking)} instead of {written(now.chunking)}: {_workers(best)} instead of "
        f"{_workers(now)}, and {best.predicted.in_time:.0%} instead of {now.predicted.in_time:.0%} in time with the "
        "present ones; --apply-chunks writes it"
    )


def _workers(one: Tuning) -> str:
    if one.workers is None:
        return "no number of workers keeps both promises"
    return f"{one.workers} worker{'s' if one.workers > 1 else ''} keep{'' if one.workers > 1 else 's'} both promises"


def _gpus(fix: Fix) -> str:
    if fix.exchanged:
        return f"={fix.exchanged}"
    return f"+{fix.gpus}" if fix.gpus else "-"
