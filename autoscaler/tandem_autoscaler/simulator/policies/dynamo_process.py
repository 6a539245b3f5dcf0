"""A running planner process: one JSON line out, one line back. The protocol is that process's own docstring."""

import json
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

_END_SECONDS = 5.0


class PlannerFailed(Exception):
    """The planner process is gone or gave up. The message is one sentence with the last thing it said."""


class PlannerProcess:
    """Serves one run after another (`begin`), so that its long start is paid once.

    Ends with `close`, with the last reference to it, and with this process, whichever is first.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """`command` starts it: `benchmark.dynamo.environment.planner_command()`. Returns at once, so that its imports
        (some seconds) pass while the caller does other things. Raises PlannerFailed.
        """
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, bufsize=1
            )
        except OSError as error:
            self._log.close()
            raise PlannerFailed(f"NVIDIA's planner does not start: {error}") from None
        self._process = process
        self._run = 0
        self.close = weakref.finalize(self, _end, process, self._log)

    def begin(self, question: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Forget the run before, if any. Returns the new run's number and the answer. Raises PlannerFailed."""
        self._run += 1
        return self._run, self._exchange(question)

    def ask(self, run: int, question: dict[str, Any]) -> dict[str, Any]:
        """Raises PlannerFailed; the process is ended then."""
        if run != self._run:
            raise PlannerFailed(
                "NVIDIA's planner has begun another run meanwhile: two at a time need two processes"
            )
        return self._exchange(question)

    def _exchange(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            line = self._process.stdout.readline()
        except (OSError, ValueError):  # a broken pipe; ValueError: closed by us before
            line = ""
        if not line:
            raise PlannerFailed(f"NVIDIA's planner ended before it answered{self._last_words()}")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self.close()
            raise PlannerFailed(f"NVIDIA's planner answered what is not JSON: {line.strip()[:200]}") from None
        if "error" in answer:
            self.close()
            raise PlannerFailed(f"NVIDIA's planner gave up: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        if not self.close.alive:
            return ""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._log.seek(0)
        said = [line.strip() for line in self._log if line.strip()]
        self.close()
        return f" (exit code {self._process.returncode}){': ' + said[-1] if said else ''}"


def _end(process: "subprocess.Popen[str]", log: IO[str]) -> None:
    """The end of its stdin ends it; one that does not go is killed, for nobody else knows it."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what could not be flushed to a process already gone
            pipe.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    log.close()
