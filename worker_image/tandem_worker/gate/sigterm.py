"""See SIGTERM without taking it from the server."""

import signal
import threading
from collections.abc import Callable
from types import FrameType


def before_sigterm(first: Callable[[], None]) -> bool:
    """Call `first` when SIGTERM comes, then whatever handled it so far.

    An event loop learns of signals by a wake-up file descriptor that CPython writes to for any handler in
    Python, so a server's `loop.add_signal_handler` still runs (asyncio and uvloop). `first` runs in the main
    thread between two instructions: it may set flags and call `loop.call_soon_threadsafe`, no more.

    Returns False, and does nothing, outside the main thread, where Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    before = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        first()
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, handle)
    return True
