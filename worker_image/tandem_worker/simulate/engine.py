"""Runs the scheduler in real time and hands each request its tokens."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tandem_worker.simulate.metrics import EXTERNAL_KV_TRANSFER, LOCAL_COMPUTE, EngineMetrics
from tandem_worker.simulate.profile import Profile
from tandem_worker.simulate.scheduler import Limits, Phase, Scheduler, Sequence, Step
from tandem_worker.simulate.transfer import Holdings, Link, Remote, TransferFailed, ask, fetch

logger = logging.getLogger("tandem.simulate")

# A step that ends later than this behind its time is not caught up with: the machine is too slow, and the
# simulated engine is slower than its profile (tandem:simulator_lag_seconds says so).
CATCH_UP_SECONDS = 0.05


class QueueFull(Exception):
    """--max-num-queued-reqs is reached."""


@dataclass(eq=False)
class Ticket:
    """A request's side of the engine. `finish_reason` is set once there are no more tokens to come."""

    request_id: str
    sequence: Sequence
    max_tokens: int
    natural_end: bool  # it stops by itself, not at max_tokens
    remote: Remote | None = None  # where its prompt was prefilled
    hold_kv: bool = False  # it was prefilled for another engine
    finish_reason: str | None = None
    error: str | None = None
    delivered: int = 0
    _waiter: asyncio.Future[None] | None = None

    def advance(self) -> None:
        """There is news; wakes whoever waits in `tokens`."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def tokens(self) -> int:
        """Wait for news; returns how many tokens have come since the last call (0: it has ended)."""
        while True:
            new = self.sequence.generated_tokens - self.delivered
            if new:
                self.delivered += new
                return new
            if self.finish_reason is not None:
                return 0
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class Engine:
    """One simulated engine. `run` must be running for requests to advance."""

    def __init__(
        self,
        profile: Profile,
        limits: Limits,
        metrics: EngineMetrics,
        *,
        max_queued: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.profile = profile
        self.metrics = metrics
        self.scheduler = Scheduler(profile, limits)
        self.holdings = Holdings(self._release_held)
        self._link = Link(profile.transfer_bytes_per_second, profile.transfer_seconds)
        self._max_queued = max_queued
        self._clock = clock
        self._tickets: dict[Sequence, Ticket] = {}
        self._to_transfer: deque[Ticket] = deque()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._background: set[asyncio.Task[None]] = set()
        # SIGTERM has come: what is open goes on.
        self.stopping = False

    # --- requests -----------------------------------------------------------------------------------------
    def submit(self, ticket: Ticket) -> None:
        """Take a request in.

        Raises:
            QueueFull: as many wait as may.
        """
        if self._max_queued is not None and self._queued() >= self._max_queued:
            self.metrics.rejected_for_queue += 1
            raise QueueFull
        ticket.sequence.queued_seconds = self._clock()
        self._tickets[ticket.sequence] = ticket
        self._idle.clear()
        if ticket.remote is not None:
            self._to_transfer.append(ticket)
        else:
            self.scheduler.add(ticket.sequence)
        self._work.set()

    def abort(self, ticket: Ticket) -> None:
        """The client has gone, or the server stops. Does nothing once the request has ended."""
        if ticket.finish_reason is None:
            self._end(ticket, "abort")

    async def drained(self) -> None:
        """Wait until no request is left."""
        await self._idle.wait()

    def abort_all(self) -> None:
        for ticket in list(self._tickets.values()):
            self.abort(ticket)

    def _queued(self) -> int:
        return len(self.scheduler.waiting) + len(self._to_transfer) + len(self.scheduler.transferring)

    # --- the loop -----------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Step until cancelled. Step ends lie on a time line, so that a late wake-up is not added up."""
        due = self._clock()
        while True:
            self._begin_transfers()
            step = self.scheduler.plan(self._clock())
            self._refresh_gauges()
            if step is None:
                self._work.clear()
                await self._work.wait()
                due = self._clock()
                continue
            due += step.seconds
            late = self._clock() - due
            if late > CATCH_UP_SECONDS:
                due += late
            await asyncio.sleep(max(0.0, due - self._clock()))
            self.metrics.lag_seconds = max(0.0, self._clock() - due)
            self._account(step)

    def _account(self, step: Step) -> None:
        now = self._clock()
        metrics = self.metrics
        metrics.preemptions = self.scheduler.preemptions
        metrics.observe("iteration_tokens_total", sum(tokens for _, tokens in step.work))
        inter_token = metrics.histograms["inter_token_latency_seconds"]
        for sequence in self.scheduler.complete(step, now):
            metrics.generation_tokens += 1
            if sequence.last_token_seconds is not None:
                inter_token.observe(now - sequence.last_token_seconds)
            else:
                self._first_token(sequence, now)
            sequence.last_token_seconds = now
            ticket = self._tickets[sequence]
            if sequence.generated_tokens >= sequence.output_tokens:
                self._end(ticket, "stop" if ticket.natural_end else "length")
            else:
                ticket.advance()

    def _first_token(self, sequence: Sequence, now: float) -> None:
        self.metrics.observe("time_to_first_token_seconds", now - sequence.arrived_seconds)
        source = EXTERNAL_KV_TRANSFER if sequence.external_tokens else LOCAL_COMPUTE
        self.metrics.prompt_tokens[source] += sequence.prompt_tokens

    def _end(self, ticket: Ticket, reason: str) -> None:
        sequence = ticket.sequence
        hold = ticket.hold_kv and reason in ("stop", "length")
        self.scheduler.remove(sequence, keep_blocks=hold)
        del self._tickets[sequence]
        if not self._tickets:
            self._idle.set()
        if ticket in self._to_transfer:
            self._to_transfer.remove(ticket)
        if hold:
            self.holdings.hold(ticket.request_id, sequence)
        ticket.finish_reason = reason
        self.metrics.finished[reason] += 1
        if reason in ("stop", "length"):
            self._observe_finished(ticket, self._clock())
        ticket.advance()
        self._work.set()  # its blocks may let another one in

    def _observe_finished(self, ticket: Ticket, now: float) -> None:
        sequence, observe = ticket.sequence, self.metrics.observe
        scheduled = sequence.scheduled_seconds or now
        first = sequence.first_token_seconds or now
        observe("e2e_request_latency_seconds", now - sequence.arrived_seconds)
        observe("request_queue_time_seconds", scheduled - (sequence.queued_seconds or scheduled))
        observe("request_inference_time_seconds", now - scheduled)
        observe("request_prefill_time_seconds", first - scheduled)
        observe("request_decode_time_seconds", now - first)
        observe("request_prompt_tokens", sequence.prompt_tokens)
        observe("request_generation_tokens", sequence.generated_tokens)
        observe("request_params_max_tokens", ticket.max_tokens)
        observe("request_num_preemptions", sequence.preemptions)
        # vLLM observes 0 for an answer of one token (v1/metrics/stats.py), and so do we.
        tokens_after_first = sequence.generated_tokens - 1
        observe(
            "request_time_per_output_token_seconds",
            (now - first) / tokens_after_first if tokens_after_first else 0.0,
        )

    def _refresh_gauges(self) -> None:
        gauges = self.metrics.gauges
        gauges.running = len(self.scheduler.running)
        gauges.unallocated = len(self._to_transfer)
        gauges.deferred = gauges.unallocated + len(self.scheduler.transferring)
        gauges.waiting = len(self.scheduler.waiting) + gauges.deferred
        gauges.kv_usage = self.scheduler.kv_usage

    # --- KV from elsewhere --------------------------------------------------------------------------------
    def _begin_transfers(self) -> None:
        while self._to_transfer and self.scheduler.begin_transfer(self._to_transfer[0].sequence):
            task = asyncio.get_running_loop().create_task(self._transfer(self._to_transfer.popleft()))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _transfer(self, ticket: Ticket) -> None:
        remote, sequence = ticket.remote, ticket.sequence
        assert remote is not None
        try:
            held = await fetch(remote)
            if held != sequence.prompt_tokens:
                raise TransferFailed(f"{held} tokens are held, the prompt has {sequence.prompt_tokens}")
            size = sequence.prompt_tokens * self.profile.kv_bytes_per_token
            seconds = self._link.take_seconds(size, self._clock())
            await asyncio.sleep(seconds)
            await ask(remote, "done")
        except TransferFailed as failure:
            # vLLM's kv_load_failure_policy "fail": the client gets an error, not a silent recompute here.
            logger.warning("KV transfer of %s failed: %s", ticket.request_id, failure)
            if ticket.finish_reason is None:
                ticket.error = f"KV transfer failed: {failure}"
                self._end(ticket, "error")
            return
        self.metrics.observe("nixl_xfer_time_seconds", seconds)
        self.metrics.observe("nixl_bytes_transferred", size)
        if sequence.phase is Phase.TRANSFERRING:
            self.scheduler.end_transfer(sequence)
            self._work.set()

    def _release_held(self, sequence: Sequence) -> None:
        self.scheduler.release_blocks(sequence)
        self._work.set()
