"""How the worker ends before the engine has begun: one line, one exit code, never a traceback.

    WorkerExit
    +-- UserMistake        exit 2   the command line cannot be carried out
    +-- PreflightRefused   exit 78  the model cannot run here (EX_CONFIG of sysexits.h)

The line of a refusal begins with its reason word, because Kubernetes carries it as the container's
termination message and the operator reads the first word.
"""

import os
import sys
from pathlib import Path

TERMINATION_LOG = "/dev/termination-log"


class WorkerExit(Exception):
    """Ends the worker with `exit_code` after one line on standard error."""

    exit_code = 1


class UserMistake(WorkerExit):
    """The command line is wrong."""

    exit_code = 2


class PreflightRefused(WorkerExit):
    """The model cannot run on this device; `reason` is the first word of the line."""

    exit_code = 78

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


def say_last_words(line: str) -> None:
    """Write `line` to the termination log (where one is mounted) and to standard error."""
    line = " ".join(line.split())
    path = Path(os.environ.get("TANDEM_TERMINATION_LOG", TERMINATION_LOG))
    # Outside a container there is no such file, and making one in /dev would be wrong.
    if path.exists() or "TANDEM_TERMINATION_LOG" in os.environ:
        try:
            path.write_text(line + "\n")
        except OSError as error:
            print(f"tandem-worker: cannot write {path}: {error.strerror}", file=sys.stderr)
    print(line, file=sys.stderr, flush=True)
