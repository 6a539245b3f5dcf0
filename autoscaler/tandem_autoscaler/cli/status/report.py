"""The status for people, at a terminal of 80 columns or more."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from tandem_autoscaler.cli import output
from tandem_autoscaler.cli.view import Condition, ServiceView, WorkerView, age

# Conditions that are bad news when False; the others are when True.
_GOOD_WHEN_FALSE = frozenset({"ScalingLimited", "Progressing"})
_MOST_PODS = 40


def print_list(views: Sequence[ServiceView], *, namespace: str | None, now_seconds: float) -> None:
    console = output.console()
    if not views:
        where = f"in namespace {namespace}" if namespace is not None else "in any namespace"
        console.print(f"there is no InferenceService {where}")
        return
    everywhere = namespace is None
    heads = [
        *(["NAMESPACE"] if everywhere else []),
        "NAME",
        "READY",
        "WORKERS",
        "TTFT",
        "TPOT",
        "GPUS",
        "REASON",
        "AGE",
    ]
    made = output.table(*heads, left=len(heads))
    # On a narrow terminal names go on in the next line; everything else stays readable.
    for column in made.columns[: heads.index("READY")]:
        column.no_wrap, column.overflow = False, "fold"
    for view in views:
        ready = view.condition("Ready")
        cells = [
            *([escape(view.namespace)] if everywhere else []),
            escape(view.name),
            "-" if ready is None else ready.status,
            " ".join(f"{one.role[0].upper()} {_of(one.ready, one.desired)}" for one in view.roles),
            *(_kept(view, name) for name in ("TTFT", "TPOT")),
            "-" if view.gpus_used is None else _of(view.gpus_used, view.gpu_budget),
            "Paused" if view.paused else "-" if ready is None else ready.reason,
            age(view.created_seconds, now_seconds),
        ]
        made.add_row(*cells, style=None if ready is None or ready.status == "True" else "red")
    console.print(made)


def print_one(view: ServiceView, pods: Sequence[WorkerView], *, now_seconds: float) -> None:
    console = output.console()
    ready = view.condition("Ready")
    word = (
        "no status yet"
        if ready is None
        else f"{'ready' if ready.status == 'True' else 'not ready'}, {ready.reason}"
    )
    colour = "yellow" if ready is None else "green" if ready.status == "True" else "red"
    console.print(f"[bold]{escape(view.namespace)}/{escape(view.name)}[/]: [bold {colour}]{word}[/]")
    console.print(
        f"{view.mode}, serves {escape(view.model)}" + (f" at {escape(view.url)}" if view.url else "")
    )
    scaling = "paused by annotation" if view.paused else view.scaling
    budget = f" of {view.gpu_budget}" if view.gpu_budget is not None else ""
    used = "" if view.gpus_used is None else f", {view.gpus_used}{budget} GPUs"
    console.print(f"autoscaling {scaling}{used}, router {view.router or 'unknown'}")
    if view.stale:
        console.print("[yellow]the status is about an earlier version of the spec[/]")
    _roles(console, view)
    _promises(console, view)
    _conditions(console, view, now_seconds)
    _pods(console, pods, now_seconds)


def _roles(console: Console, view: ServiceView) -> None:
    made = output.table("workers", "ready", "starting", "draining", "new template")
    for one in view.roles:
        made.add_row(
            one.role, _of(one.ready, one.desired), _text(one.starting), _text(one.draining), _text(one.updated)
        )  # fmt: skip
    console.print(made)


def _promises(console: Console, view: ServiceView) -> None:
    if not view.promises:
        return
    made = output.table("promise", "target", f"p{view.percentile} measured", "requests in time")
    for one in view.promises:
        made.add_row(one.name, one.target, one.measured or "-", one.attainment or "-")
    console.print(made)


def _conditions(console: Console, view: ServiceView, now_seconds: float) -> None:
    if not view.conditions:
        console.print("no conditions yet: is the operator running?")
        return
    made = output.table("condition", "is", "for", "reason and message", left=4)
    made.columns[3].no_wrap = False
    for one in view.conditions:
        text = escape(f"{one.reason}: {one.message}" if one.message else one.reason)
        made.add_row(one.kind, one.status, age(one.since_seconds, now_seconds), text, style=_style(one))
    console.print(made)


def _style(one: Condition) -> str | None:
    if one.status == "Unknown":
        return "yellow"
    bad = one.status == "True" if one.kind in _GOOD_WHEN_FALSE else one.status == "False"
    return ("yellow" if one.kind in _GOOD_WHEN_FALSE else "red") if bad else None


def _pods(console: Console, pods: Sequence[WorkerView], now_seconds: float) -> None:
    if not pods:
        return
    made = output.table("pod", "role", "state", "age", "node", left=5)
    for pod in pods[:_MOST_PODS]:
        state = "draining" if pod.draining else "ready" if pod.ready else pod.phase
        made.add_row(
            escape(pod.name), pod.role, state, age(pod.created_seconds, now_seconds), escape(pod.node or "-"),
            style=None if pod.ready else "yellow",
        )  # fmt: skip
    console.print(made)
    if len(pods) > _MOST_PODS:
        console.print(f"[dim]and {len(pods) - _MOST_PODS} more[/]")
    for pod in pods:
        if pod.ailment:
            console.print(f"[red]{escape(pod.name)}[/]: {escape(pod.ailment)}")


def _kept(view: ServiceView, name: str) -> str:
    one = next((promise for promise in view.promises if promise.name == name), None)
    if one is None or one.measured is None:
        return "-"
    return f"{one.measured}/{one.target}"


def _of(part: int | None, whole: int | None) -> str:
    if part is None:
        return "-"
    return str(part) if whole is None else f"{part}/{whole}"


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)
