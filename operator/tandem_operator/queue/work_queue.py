"""`WorkQueue`: each key once, one flight per key, later and again with backoff.

The same contract as client-go's workqueue: a key that is added while it is in flight runs once more afterwards.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """`clock` gives seconds that never go back. Not for use from several threads."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        first_backoff_seconds: float = 0.5,
        longest_backoff_seconds: float = 60.0,
    ) -> None:
        self._clock = clock
        self._first, self._longest = first_backoff_seconds, longest_backoff_seconds
        # When each waiting key is due. The heap may hold stale entries; this is the truth.
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._in_flight: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """Keys that wait, due or not."""
        return len(self._due)

    def add(self, key: Key) -> None:
        """Look at it as soon as possible."""
        self.add_after(key, 0.0)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at it no later than so many seconds from now; an earlier appointment stands."""
        due = self._clock() + max(0.0, seconds)
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._wake.set()

    def take(self) -> Key | None:
        """The key that is due and in nobody's hands, marked as in flight; None when there is none now."""
        now = self._clock()
        held: list[tuple[float, int, Key]] = []
        found: Key | None = None
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            due, _, key = entry
            if self._due.get(key) != due:
                continue
            if key in self._in_flight:
                held.append(entry)
                continue
            del self._due[key]
            self._in_flight.add(key)
            found = key
            break
        for entry in held:
            heapq.heappush(self._heap, entry)
        return found

    def done(self, key: Key) -> None:
        """It went well: its next failure starts with the shortest backoff again."""
        self._failures.pop(key, None)
        self._land(key)

    def failed(self, key: Key, *, after_seconds: float | None = None) -> float:
        """It went wrong: again after a backoff that doubles, or after what the server asked. Returns the wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        backoff = min(self._longest, self._first * 2.0 ** min(failures, 30))
        wait = max(backoff, after_seconds or 0.0)
        self._land(key)
        # What was added in flight meanwhile must not undercut the backoff.
        self._due.pop(key, None)
        self.add_after(key, wait)
        return wait

    def _land(self, key: Key) -> None:
        self._in_flight.discard(key)
        self._wake.set()

    async def get(self) -> Key:
        """Wait for the next key that is due."""
        while True:
            self._wake.clear()
            key = self.take()
            if key is not None:
                # Others may wait for what else is due.
                self._wake.set()
                return key
            free = [due for waiting, due in self._due.items() if waiting not in self._in_flight]
            timeout = max(0.0, min(free) - self._clock()) if free else None
            try:
                await asyncio.wait_for(self._wake.wait(), timeout)
            except TimeoutError:
                continue
