"""Open, closing, closed: the state of the gate and the requests that are inside."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

# An app that does not yield to its cancellation is told again this often.
CUT_AGAIN_SECONDS = 1.0


class State(StrEnum):
    OPEN = "open"
    CLOSING = "closing"  # new requests are refused, open ones go on
    CLOSED = "closed"  # none is left, or the deadline has ended them


class Guest(Protocol):
    """A request inside."""

    def cut(self) -> None:
        """End the request now; may be called again."""
        ...


class Door:
    """Closing cannot be undone. Times are those of `clock` (monotonic seconds)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closing = False
        self._past_deadline = False
        self._deadline_seconds: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.guests: set[Guest] = set()

    @property
    def is_open(self) -> bool:
        return not self._closing

    @property
    def state(self) -> State:
        if not self._closing:
            return State.OPEN
        return State.CLOSED if self._past_deadline or not self.guests else State.CLOSING

    def shut(self) -> None:
        """Refuse new requests from now on. Safe in a signal handler: it sets one attribute."""
        self._closing = True

    def close(self, within_seconds: float) -> None:
        """Refuse new requests; end the open ones in `within_seconds`. An earlier deadline stays."""
        self._closing = True
        deadline = self._clock() + max(0.0, within_seconds)
        if self._deadline_seconds is not None and self._deadline_seconds <= deadline:
            return
        self._deadline_seconds = deadline
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, within_seconds), self._cut_all)

    def remaining_seconds(self) -> float | None:
        """Until the deadline; None when there is none."""
        return None if self._deadline_seconds is None else max(0.0, self._deadline_seconds - self._clock())

    def _cut_all(self) -> None:
        self._past_deadline = True
        for guest in list(self.guests):
            guest.cut()
        if self.guests:
            self._timer = asyncio.get_running_loop().call_later(CUT_AGAIN_SECONDS, self._cut_all)
