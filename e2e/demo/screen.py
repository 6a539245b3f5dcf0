"""What the person at the terminal sees: a live board, or plain lines where there is no terminal."""

import time

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from e2e.demo.scene import Scene
from e2e.load import Answers

_LINE_EVERY_SECONDS = 10.0


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.0f} ms"


class Screen:
    """Use as a context manager; `show` as often as you like."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._live = Live(console=self.console, refresh_per_second=2) if self.console.is_terminal else None
        self._started = time.monotonic()
        self._last_line = 0.0
        self._told: set[str] = set()
        self.act = ""

    def __enter__(self) -> "Screen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    @property
    def elapsed(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def say(self, text: str, *, style: str = "") -> None:
        """A line that stays."""
        self.console.print(f"[dim]{self.elapsed:>6}[/dim]  {text}", style=style, soft_wrap=True)

    def begin(self, act: str) -> None:
        self.act = act
        self.say(act, style="bold")

    def show(self, scene: Scene | None, answers: Answers, *, since: float) -> None:
        """One look at the service and at what its users felt since `since` (wall clock)."""
        if scene is None:
            return
        for decision in scene.decisions:
            # Each change of size is told once, as it happens; "now" lines only live on the board.
            if not decision.startswith("now") and decision not in self._told:
                self._told.add(decision)
                self.say(decision, style="cyan")
        if self._live:
            self._live.update(self._board(scene, answers, since))
        elif time.monotonic() - self._last_line >= _LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            self.say(self._line(scene, answers, since))

    def _felt(self, answers: Answers, since: float, name: str) -> str:
        half, tail = answers.tail(name, 50, since=since), answers.tail(name, 95, since=since)
        return f"{_milliseconds(half)} / {_milliseconds(tail)}"

    def _line(self, scene: Scene, answers: Answers, since: float) -> str:
        roles = ", ".join(
            f"{name} {role.ready}/{role.desired}"
            + (f" ({role.starting} starting)" if role.starting else "")
            + (f" ({role.draining} draining)" if role.draining else "")
            for name, role in scene.roles.items()
        )
        return (
            f"Ready={scene.ready} {scene.reason}; {roles}; users felt TTFT p50/p95 "
            f"{self._felt(answers, since, 'ttft_seconds')}, TPOT {self._felt(answers, since, 'tpot_seconds')}"
        )

    def _board(self, scene: Scene, answers: Answers, since: float) -> Panel:
        roles = Table(box=None, pad_edge=False, expand=True)
        for column in ("role", "ready/desired", "starting", "draining"):
            roles.add_column(column)
        for name, role in scene.roles.items():
            roles.add_row(name, f"{role.ready}/{role.desired}", str(role.starting), str(role.draining))
        promises = Table(box=None, pad_edge=False, expand=True)
        for column in ("promise", "target", "workers measured", "attained", "users felt p50 / p95"):
            promises.add_column(column)
        for label, target, name in (
            ("TTFT", scene.ttft, "ttft_seconds"),
            ("TPOT", scene.tpot, "tpot_seconds"),
        ):
            promises.add_row(
                label, target.get("target", "-"), target.get("measured", "-"), target.get("attainment", "-"),
                self._felt(answers, since, name),
            )  # fmt: skip
        decisions = Text("\n".join(scene.decisions[:7]) or "no decision yet", overflow="fold")
        counted = f"{len(answers.all)} of {answers.sent} requests answered, {len(answers.failures)} failed"
        title = f"{self.elapsed}  {self.act}"
        body = Group(
            Text(f"Ready={scene.ready}  {scene.reason}  {scene.message}"),
            "",
            roles,
            "",
            promises,
            "",
            decisions,
        )
        return Panel(body, title=title, subtitle=counted, title_align="left", subtitle_align="left")
