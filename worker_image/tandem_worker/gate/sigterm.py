"""See SIGTERM without taking it from the server."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class SigtermWatch:
    """Calls `first` when SIGTERM comes, then whatever handled it so far.

    An event loop learns of signals by a wake-up file descriptor that CPython writes to for any handler in
    Python, so a server's `loop.add_signal_handler` still runs (asyncio and uvloop). `first` runs in the main
    thread between two instructions: it may set flags and call `loop.call_soon_threadsafe`, no more.
    """

    def __init__(self, first: Callable[[], None]) -> None:
        self._first = first
        self._own = self._handle  # one object: a bound method is made anew each time
        self._before: list[Any] = []
        self._depth = 0

    def arm(self) -> bool:
        """Take the signal, also from one who took it from us: SGLang does so with its first request. Costs next to
        nothing when it is ours already.

        Returns False, and does nothing, outside the main thread, where Python allows no handlers.
        """
        before = signal.getsignal(signal.SIGTERM)
        if before is self._own:
            return True
        if threading.current_thread() is not threading.main_thread():
            return False
        self._before.append(before)
        signal.signal(signal.SIGTERM, self._own)
        return True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._depth == 0:
            self._first()
        # One who took the signal from us may call us in turn; then it is the turn of who was there before both.
        self._depth += 1
        try:
            if self._depth <= len(self._before):
                _pass_on(self._before[-self._depth], number, frame)
        finally:
            self._depth -= 1


def _pass_on(handler: Any, number: int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(number, frame)
    elif handler == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
