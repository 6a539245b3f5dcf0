"""The separate Python environment of NVIDIA's planner, made once and kept in the cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PLANNER_PROCESS = Path(__file__).with_name("planner_process.py")

_INSTALL_SECONDS = 900.0
_IMPORT_SECONDS = 120.0


class Unavailable(Exception):
    """The planner cannot run on this machine. The message is one sentence for the person at the terminal."""


def planner_command() -> list[str]:
    """The command that starts the planner process; makes its environment first if it is not there yet.

    Raises Unavailable. About 10 s with the wheels cached, 900 MB on disk.
    """
    return [str(_interpreter(ensure())), "-I", str(PLANNER_PROCESS)]


def ensure() -> Path:
    """The environment's folder, complete. Raises Unavailable."""
    folder = location()
    if _interpreter(folder).exists():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(folder):
            if not _interpreter(folder).exists():
                _make(folder)
    except OSError as error:
        raise Unavailable(f"NVIDIA's planner has no place in the cache: {error}") from None
    return folder


def location() -> Path:
    """A folder per content of the requirements file and Python version, so that a changed pin is a new environment."""
    content = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    explicit = os.environ.get("TANDEM_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    cache = Path(explicit) if explicit else Path(home) / "tandem"
    return cache.absolute() / f"dynamo-{content}-py{sys.version_info.major}.{sys.version_info.minor}"


def _interpreter(folder: Path) -> Path:
    return folder / "bin" / "python"


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two runs that want the environment make it once."""
    with folder.with_name(f".{folder.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _make(folder: Path) -> None:
    """Built beside its place and moved there whole: an interrupted installation is never taken for a finished one."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        for command in _installation(part):
            _run(command, _INSTALL_SECONDS, "cannot be installed here")
        _run(
            [str(_interpreter(part)), "-I", "-c", "import dynamo.planner.plugins"],
            _IMPORT_SECONDS,
            "does not load here",
        )
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _installation(folder: Path) -> list[list[str]]:
    python, wanted = str(_interpreter(folder)), ["--no-deps", "-r", str(REQUIREMENTS)]
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is not None:
        return [
            [uv, "venv", "-q", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "-q", "--python", python, *wanted],
        ]
    return [[sys.executable, "-m", "venv", str(folder)], [python, "-m", "pip", "install", "-q", *wanted]]


def _run(command: Sequence[str], seconds: float, failure: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"NVIDIA's planner {failure}: no end after {seconds:.0f} s") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Unavailable(
            f"NVIDIA's planner {failure}: {said[-1] if said else f'exit code {done.returncode}'}"
        )
