"""`tandem-worker close` and `status`: the pod's own side of the control sockets."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tandem_worker.gate import control

POLL_SECONDS = 0.1
# After its deadline the gate writes the last words of each stream.
AFTER_DEADLINE_SECONDS = 10.0


def gate_status(place: Path | None = None) -> dict[str, Any] | None:
    """State of all gates here as one: open only if all are. None when no gate answers."""
    answers = _ask_all({"do": "status"}, place or control.directory())
    if not answers:
        return None
    states = {answer["state"] for answer in answers}
    return {
        "state": next(state for state in ("open", "closing", "closed") if state in states),
        "in_flight": sum(answer["in_flight"] for answer in answers),
        "processes": len(answers),
    }


def close_and_wait(
    *,
    deadline_seconds: float,
    settle_seconds: float = 0.0,
    place: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Close every gate here and wait until nothing is in flight, or the deadline has ended what was.

    Returns one line that says how it went. Never raises for a gate that is not there: preStop must not
    keep a pod of a stock image, or one whose engine has died, from ending.
    """
    place = place or control.directory()
    sleep(settle_seconds)
    started = clock()
    if not _ask_all({"do": "close", "within_seconds": deadline_seconds}, place):
        return "tandem-worker close: no gate is running here, nothing to close"
    while True:
        status = gate_status(place)
        waited = clock() - started
        if status is None:
            return f"tandem-worker close: the engine ended after {waited:.1f} s"
        if status["in_flight"] == 0:
            return f"tandem-worker close: nothing in flight after {waited:.1f} s"
        if waited > deadline_seconds + AFTER_DEADLINE_SECONDS:
            return f"tandem-worker close: {status['in_flight']} still in flight after {waited:.1f} s, gave up"
        sleep(POLL_SECONDS)


def _ask_all(question: dict[str, Any], place: Path) -> list[dict[str, Any]]:
    answers = []
    for path in control.sockets(place):
        try:
            answers.append(control.ask(path, question))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError:
            continue
    return [answer for answer in answers if "state" in answer]
