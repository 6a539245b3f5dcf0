"""The story for people, at a terminal of 80 columns or more."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from tandem_autoscaler.cli import output
from tandem_autoscaler.cli.explain.document import SCALING_CONDITIONS
from tandem_autoscaler.cli.explain.happened import Happened
from tandem_autoscaler.cli.view import Decision, ServiceView, age
from tandem_autoscaler.meanings import explained

_MOST_EVENTS = 10


def print_story(view: ServiceView, events: Sequence[Happened], *, now_seconds: float) -> None:
    console = output.console()
    scaling = "paused by annotation" if view.paused else f"mode {view.scaling}"
    console.print(f"[bold]{escape(view.namespace)}/{escape(view.name)}[/]: autoscaling {scaling}")
    for kind in SCALING_CONDITIONS:
        one = view.condition(kind)
        if one is not None:
            console.print(f"{kind} {one.status}: {escape(one.message or one.reason)}")
    if not view.decisions:
        console.print("no decision yet: is the autoscaler running, and are slo.ttft and slo.tpot set?")
    for decision in view.decisions:
        console.print()
        _decision(console, decision, now_seconds)
    if view.history:
        console.print("\n[bold]changes before[/]")
        console.print(_lines([(one.at_seconds, escape(one.message)) for one in view.history], now_seconds))
    if events:
        console.print("\n[bold]events[/]")
        told = [(one.at_seconds, _event(one)) for one in events[:_MOST_EVENTS]]
        console.print(_lines(told, now_seconds))
        if len(events) > _MOST_EVENTS:
            console.print(f"[dim]and {len(events) - _MOST_EVENTS} more[/]")


def _event(event: Happened) -> str:
    reason = f"[yellow]{event.reason}[/]" if event.warning else event.reason
    return f"{reason}: {escape(event.note)}"


def _decision(console: Console, decision: Decision, now_seconds: float) -> None:
    move = (
        f"{decision.before} -> {decision.after}"
        if decision.before != decision.after
        else f"stays at {decision.after}"
    )
    console.print(
        f"[bold]{decision.role} {move}[/] ({decision.reason}, for {age(decision.at_seconds, now_seconds)})"
    )
    # The message repeats the move.
    why = decision.message.partition(": ")[2] or decision.message
    console.print(Padding(escape(why), (0, 0, 0, 2), expand=False))
    if decision.numbers:
        made = output.table("number", "", left=1)
        for words, value in explained(decision.numbers):
            made.add_row(words, value)
        console.print(made)


def _lines(told: Sequence[tuple[float | None, str]], now_seconds: float) -> Table:
    """Times in a column of their own, so that long texts wrap beside them."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(justify="right", no_wrap=True)
    made.add_column()
    for at_seconds, text in told:
        made.add_row(f"{age(at_seconds, now_seconds)} ago", text)
    return made
