"""The simulated engine on a node that only computes: it holds its place until it is told to go."""

import signal
import sys
import threading


def follow() -> int:
    """Wait for SIGTERM or SIGINT; the exit code."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    print("tandem-worker: a simulated node without a server waits for its end", file=sys.stderr, flush=True)
    told.wait()
    return 0
