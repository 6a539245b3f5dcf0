"""Holds requests at the gate and lets them into the engine one behind the other, in the order of `order.py`.

Only a few prompts are inside at once, because the engine's own queue is first come first served. A request counts
as inside until its first token: decoding sequences hold nobody up.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tandem_worker.gate.admission import Arrival, ClientGone
from tandem_worker.gate.demotion.order import Order, Waiting
from tandem_worker.gate.demotion.prefill_time import PrefillTime
from tandem_worker.gate.measures import Held
from tandem_worker.gate.prompt import Prompt
from tandem_worker.gate.refusal import Refusal

# One prompt computing and one ready behind it, so that the engine does not wait for HTTP and tokeniser.
INSIDE = 2
# Short prompts share an engine step: as many go in as make work for this share of the target: all that the order loses.
# Less costs throughput (0.05: 5 to 10 % of it in the simulated engine at full load), and in the end attainment.
AHEAD_SHARE = 0.2
# What no prompt has confirmed for so many requests is forgotten (clients that no longer stream show no first token).
TRUSTED_FOR_REQUESTS = 200
# Prompts that followed one another are learnt from as one: two in the same step show their first tokens together.
LEARNT_TOGETHER = 4


@dataclass(slots=True)
class _Inside:
    """A request in the engine whose first token has not come."""

    request: Waiting
    entered_seconds: float
    work_seconds: float  # predicted; 0 while nothing is known
    shows_first_token: bool
    length_known: bool
    timer: asyncio.TimerHandle | None = None


class LateDemotion:
    """The admission queue. Until it has seen some prompts, or without a target, everyone enters as they come."""

    reads_prompts = True

    def __init__(
        self,
        *,
        target_seconds: Callable[[], float | None],
        tokens_of: Callable[[Prompt | None], float | None],
        held: Held,
        clock: Callable[[], float],
        prefill_time: PrefillTime | None = None,
    ) -> None:
        self._target_seconds = target_seconds
        self._tokens_of = tokens_of
        self._held = held
        self._clock = clock
        self._order = Order()
        self._prefill_time = prefill_time or PrefillTime()
        self._doors: dict[Waiting, asyncio.Future[None]] = {}
        self._arrivals: dict[Waiting, Arrival] = {}
        self._inside: dict[Arrival, _Inside] = {}  # in the order of entering
        self._free_since_seconds = float("-inf")  # when the last prompt was seen to be through
        self._together: list[tuple[float, float]] = []
        self._together_is_clean = True
        self._entered_since_learnt = 0

    # --- the seam -----------------------------------------------------------------------------------------
    async def enter(self, arrival: Arrival) -> Refusal | None:
        if not arrival.generates or (arrival.prompt is not None and arrival.prompt.kv_elsewhere):
            return None  # no prompt to compute here, or none that we could time
        tokens = self._tokens_of(arrival.prompt)
        request = Waiting(arrival.at_seconds, self._prefill_time.mean_tokens if tokens is None else tokens)
        door = asyncio.get_running_loop().create_future()
        self._doors[request], self._arrivals[request] = door, arrival
        self._order.add(request)
        self._let_in()
        if not door.done():
            await self._wait(request, door, arrival)
        return None

    def prompt_computed(self, arrival: Arrival) -> None:
        inside = self._inside.get(arrival)
        if inside is None:
            return
        if not inside.shows_first_token:
            self._through(arrival)  # told late perhaps, with the end of the answer: nothing to learn from
            self._let_in()
            return
        # The engine serves in order: who entered before and does not show its first token has had it.
        for earlier, other in list(self._inside.items()):
            if earlier is arrival:
                break
            if not other.shows_first_token:
                self._through(earlier)
        now = self._clock()
        began = max(inside.entered_seconds, self._free_since_seconds)
        self._together.append((inside.request.prompt_tokens, now - began))
        clean = self._together_is_clean and inside.length_known
        self._through(arrival)
        self._together_is_clean = clean
        if len(self._together) >= LEARNT_TOGETHER or not self._inside:
            self._learn()
        self._let_in()

    def leave(self, arrival: Arrival) -> None:
        if arrival in self._inside:
            self._through(arrival)
            self._let_in()

    # --- waiting ------------------------------------------------------------------------------------------
    async def _wait(self, request: Waiting, door: asyncio.Future[None], arrival: Arrival) -> None:
        watching = None
        if arrival.until_gone is not None:
            watching = asyncio.ensure_future(arrival.until_gone())
            watching.add_done_callback(lambda _: door.cancel())
        try:
            await asyncio.wait([door])
            if door.cancelled():
                raise ClientGone
        except BaseException:
            # Cancelled from outside perhaps in the very moment of being let in.
            if request in self._doors:
                del self._doors[request], self._arrivals[request]
                self._order.remove(request)
                self._count()
            else:
                self.leave(arrival)
            raise
        finally:
            if watching is not None:
                watching.cancel()

    def _let_in(self) -> None:
        """Open the door for all that may go in now."""
        while self._order:
            now, target = self._clock(), self._target_seconds()
            if target is None or not self._prefill_time.known:
                self._open(self._order.oldest(), now, free_in_seconds=0.0, target_seconds=None)
                continue
            ahead = self._free_in_seconds(now)
            if len(self._inside) >= INSIDE and ahead > AHEAD_SHARE * target:
                break
            request = self._order.choose(
                now,
                free_in_seconds=ahead,
                target_seconds=target,
                latency_seconds=self._prefill_time.latency_seconds,
                work_seconds_of=self._work_seconds_of,
            )
            if request is None or not self._has_room(request, ahead, target):
                break
            self._open(request, now, free_in_seconds=ahead, target_seconds=target)
        self._count()

    def _has_room(self, request: Waiting, ahead_seconds: float, target_seconds: float) -> bool:
        if request.low:
            # Never ready behind another: whoever comes next would wait for two.
            return not self._inside
        return (
            len(self._inside) < INSIDE
            or ahead_seconds + self._work_seconds_of(request) <= AHEAD_SHARE * target_seconds
        )

    def _open(
        self, request: Waiting, now: float, *, free_in_seconds: float, target_seconds: float | None
    ) -> None:
        seconds = 0.0 if target_seconds is None else self._work_seconds_of(request)
        self._order.take(request, seconds)
        self._entered_since_learnt += 1
        if self._entered_since_learnt > TRUSTED_FOR_REQUESTS:
            self._prefill_time = PrefillTime()
        arrival = self._arrivals.pop(request)
        door = self._doors.pop(request)
        if not door.done():
            door.set_result(None)
        if target_seconds is None and not arrival.shows_first_token:
            self._together_is_clean = False  # nothing will tell when it is through
            return
        known = self._tokens_of(arrival.prompt) is not None
        inside = _Inside(request, now, seconds, arrival.shows_first_token, known)
        self._inside[arrival] = inside
        if target_seconds is not None:
            # An answer that shows no first token is taken to be through in its time. One that should and does not
            # (the engine has no room, or speaks unknown words) may not hold up the others for ever.
            patience = free_in_seconds + seconds + self._prefill_time.latency_seconds
            patience += target_seconds if inside.shows_first_token else 0.0
            inside.timer = asyncio.get_running_loop().call_later(patience, self._overdue, arrival)

    def _overdue(self, arrival: Arrival) -> None:
        self._through(arrival)
        self._let_in()

    def _through(self, arrival: Arrival) -> None:
        """The engine is through with the request's prompt."""
        inside = self._inside.pop(arrival)
        if inside.timer is not None:
            inside.timer.cancel()
        self._free_since_seconds = self._clock()
        self._together_is_clean = False

    # --- times --------------------------------------------------------------------------------------------
    def _work_seconds_of(self, request: Waiting) -> float:
        return self._prefill_time.work_seconds(request.prompt_tokens)

    def _free_in_seconds(self, now_seconds: float) -> float:
        """Until the engine is through with all prompts inside."""
        if not self._inside:
            return 0.0
        first = next(iter(self._inside.values()))
        began = max(first.entered_seconds + self._prefill_time.latency_seconds, self._free_since_seconds)
        rest = sum(inside.work_seconds for inside in self._inside.values()) - first.work_seconds
        return max(0.0, first.work_seconds - max(0.0, now_seconds - began)) + rest

    def _learn(self) -> None:
        if self._together_is_clean:
            tokens, seconds = zip(*self._together, strict=True)
            self._prefill_time.learn(sum(tokens) / len(tokens), sum(seconds) / len(seconds))
            self._entered_since_learnt = 0
        self._together = []
        self._together_is_clean = True

    def _count(self) -> None:
        self._held.main, self._held.low = self._order.main, self._order.low
        self._held.demotions = self._order.demotions
