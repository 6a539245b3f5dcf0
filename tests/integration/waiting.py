"""Waiting for what others do in their own time."""

import time
from collections.abc import Callable
from typing import Any


def eventually(condition: Callable[[], Any], *, seconds: float = 30.0, what: str = "") -> Any:
    """The first truthy answer; fails with the last answer after so many seconds."""
    ends = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > ends:
            raise AssertionError(f"not within {seconds:g} s: {what or condition}; last answer {answer!r}")
        time.sleep(0.05)
