"""Who is next: a main queue, first come first served, and a low one for those that cannot be in time.

All requests of a service have one target, so the order of arrival is the order of due times. When a request would
be late, the one that takes longest among it and those before it goes to the low queue. With known times
no order has fewer late requests (J. M. Moore, "An n job, one machine sequencing algorithm for minimizing the number
of late jobs", Management Science 15, 1968; on one machine without preemption). Each choice asks anew.
"""

import heapq
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

# Between a prompt's end and its first token's passing: sampling, detokenising, HTTP. As a share of the target.
MARGIN_SHARE = 0.08
# A request that has waited longer in the low queue is served although others wait in the main one ...
AGE_CAP_SECONDS = 30.0
# ... but those take no more than this share of the time: in a long overload everything in the low queue
# is old, and serving it first would make all others late as well.
AGED_SHARE = 0.25


@dataclass(eq=False, slots=True)
class Waiting:
    """A request that waits. Times are seconds of one clock."""

    arrived_seconds: float
    prompt_tokens: float
    low: bool = False
    turn: int = 0  # its place among all that ever came


class Order:
    """Main and low queue. No clock: `now_seconds` comes with each question."""

    def __init__(self, *, age_cap_seconds: float = AGE_CAP_SECONDS) -> None:
        self._age_cap_seconds = age_cap_seconds
        self._main: deque[Waiting] = deque()
        self._low: list[Waiting] = []  # oldest first
        self._aged_credit_seconds = 0.0
        self._came = 0
        self.demotions = 0

    def __len__(self) -> int:
        return len(self._main) + len(self._low)

    @property
    def main(self) -> int:
        return len(self._main)

    @property
    def low(self) -> int:
        return len(self._low)

    def add(self, request: Waiting) -> None:
        """A request has come."""
        self._came += 1
        request.turn = self._came
        self._main.append(request)

    def remove(self, request: Waiting) -> None:
        """The request does not want to be served any more."""
        if request.low:
            self._low.remove(request)
        else:
            self._main.remove(request)

    def oldest(self) -> Waiting:
        """First come first served, whichever the queue."""
        heads = [queue[0] for queue in (self._main, self._low) if queue]
        return min(heads, key=lambda request: request.turn)

    def choose(
        self,
        now_seconds: float,
        *,
        free_in_seconds: float,
        target_seconds: float,
        latency_seconds: float = 0.0,
        work_seconds_of: Callable[[Waiting], float],
    ) -> Waiting | None:
        """Who is to go in next; it stays in its queue until `take`. None when nobody waits.

        Args:
            free_in_seconds: when the engine will be through with what it has.
            latency_seconds: what a prompt takes besides its work.
            work_seconds_of: how long a prompt will keep the engine from others.
        """
        allowed_seconds = target_seconds * (1 - MARGIN_SHARE) - latency_seconds
        self._demote_the_late(now_seconds + free_in_seconds, allowed_seconds, work_seconds_of)
        if self._low:
            aged = now_seconds - self._low[0].arrived_seconds > self._age_cap_seconds
            if not self._main or (aged and self._aged_credit_seconds >= 0):
                return self._low[0]
        return self._main[0] if self._main else None

    def take(self, request: Waiting, seconds: float) -> None:
        """The request goes in; its work is `seconds`."""
        if not request.low:
            earned = seconds * AGED_SHARE / (1 - AGED_SHARE)
            self._aged_credit_seconds = min(0.0, self._aged_credit_seconds + earned)
        elif self._main:
            self._aged_credit_seconds -= seconds
        self.remove(request)

    def _demote_the_late(
        self, free_at_seconds: float, allowed: float, work_seconds_of: Callable[[Waiting], float]
    ) -> None:
        # Who was put back and may still be in time is asked again: a prediction was wrong perhaps, or others have left.
        # (On a machine slower or faster than predicted: up to two points more in time.)
        hopeless = bisect_right(
            self._low, free_at_seconds - allowed, key=lambda request: request.arrived_seconds
        )
        asked = sorted((*self._low[hopeless:], *self._main), key=lambda request: request.turn)
        del self._low[hopeless:]
        finish = free_at_seconds
        # Longest first; of equal ones the last that came, so that they keep their order.
        longest: list[tuple[float, int, Waiting]] = []
        late: set[Waiting] = set()
        for request in asked:
            seconds = work_seconds_of(request)
            if seconds > allowed:
                late.add(request)  # could not be in time on an idle engine either
                continue
            finish += seconds
            heapq.heappush(longest, (-seconds, -request.turn, request))
            if finish > request.arrived_seconds + allowed:
                negative, _, victim = heapq.heappop(longest)
                finish += negative
                late.add(victim)
        self.demotions += sum(not request.low for request in late)
        self._main = deque(request for request in asked if request not in late)
        for request in asked:
            request.low = request in late
            if request.low:
                insort(self._low, request, key=lambda one: one.turn)
