"""Lines on standard error that say which long step is on, and how long it took."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def step(title: str, *, quiet: bool = False) -> Iterator[None]:
    """Print `title` now and the seconds taken when it ends."""
    if quiet:
        yield
        return
    begin = time.monotonic()
    say(f"  {title} ...")
    yield
    say(f"  {title}: {time.monotonic() - begin:.1f} s")
