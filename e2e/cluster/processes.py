"""Long-lived processes, each recorded by pid and start time, so that a recycled pid is never signalled.

A record is one JSON file in the cluster's folder; it outlives the program that wrote it.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError

# Children of this very process stay zombies until waited for; the handles are kept for that only.
_children: dict[int, subprocess.Popen[bytes]] = {}


def start_ticks(pid: int) -> int | None:
    """Start time of a living process in clock ticks after boot; None when it is gone or a zombie."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()  # the name before may hold blanks
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True)
class Process:
    name: str
    pid: int
    started_ticks: int
    log: str

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.started_ticks

    def signal(self, number: int) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def log_tail(self, lines: int = 12) -> str:
        try:
            text = Path(self.log).read_text(errors="replace").splitlines()
        except OSError as error:
            return f"(no log: {error.strerror})"
        return "\n".join(f"    {line[:300]}" for line in text[-lines:])


def spawn(name: str, command: list[str], *, folder: Path, env: Mapping[str, str] | None = None) -> Process:
    """Start `command` in a session of its own and record it below `folder`."""
    (folder / "processes").mkdir(parents=True, exist_ok=True)
    log = folder / "logs" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as sink:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
            env={**os.environ, **(env or {})},
        )
    _children[child.pid] = child
    process = Process(name=name, pid=child.pid, started_ticks=start_ticks(child.pid) or -1, log=str(log))
    (folder / "processes" / f"{name}.json").write_text(json.dumps(asdict(process)))
    return process


def recorded(folder: Path) -> list[Process]:
    """Every process recorded below `folder`, alive or not; half-written records are skipped."""
    found = []
    for file in sorted((folder / "processes").glob("*.json")):
        try:
            found.append(Process(**json.loads(file.read_text())))
        except (ValueError, TypeError):
            continue
    return found


def stop(processes: list[Process], *, grace_seconds: float) -> None:
    """SIGTERM, then SIGKILL after `grace_seconds`; returns when all are gone."""
    if grace_seconds > 0:
        for process in processes:
            process.signal(signal.SIGTERM)
        wait_until(lambda: not any(p.alive for p in processes), within_seconds=grace_seconds)
    for process in processes:
        process.signal(signal.SIGKILL)
    wait_until(lambda: not any(p.alive for p in processes), within_seconds=10)


def wait_until(condition: Callable[[], bool], *, within_seconds: float, every_seconds: float = 0.05) -> bool:
    """Poll `condition`; False when the time passed without it."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_seconds)
    return True


def wait_for(
    what: str, condition: Callable[[], bool], *, processes: list[Process], within_seconds: float
) -> None:
    """Wait for `condition`; a process that dies meanwhile, or the time, ends it with that process's log."""

    def settled() -> bool:
        return condition() or any(not p.alive for p in processes)

    wait_until(settled, within_seconds=within_seconds)
    if condition():
        return
    dead = [p for p in processes if not p.alive]
    for process in dead or processes[-1:]:
        verb = "ended" if dead else "is not ready"
        raise ClusterError(
            f"{what}: {process.name} {verb} (waited up to {within_seconds:.0f} s); the end of its log:\n"
            f"{process.log_tail()}\n  whole log: {process.log}"
        )
    raise ClusterError(f"{what}: not so after {within_seconds:.0f} s")
