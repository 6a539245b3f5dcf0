"""Workers that both promises together need, where prompts and answers share the workers' steps (ALGORITHM 4.9).

`need_prefill` and `need_decode` see each phase as the other one leaves it at present. With another number of workers
both change: fewer workers have larger batches, so that prompts take longer, and more prompts each, so that tokens do.
Here a worker is predicted as a whole. What one serves hardly depends on how many there are: behind a router that takes
the less busy one of two, the fewest of the simulator are met within one or two workers (ADR 8).
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache

from tandem_autoscaler.decide.learning import context
from tandem_autoscaler.decide.load import Load
from tandem_autoscaler.decide.need_decode import kv_per_sequence
from tandem_autoscaler.decide.need_prefill import Need
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import ServiceState, changed
from tandem_autoscaler.decide.words import rounded
from tandem_autoscaler.fleet.service import Service, Targets, decode_role
from tandem_autoscaler.model.colocated import Predicted, Promise, Traffic, Worker, most_arrivals, predict
from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.model.queueing import dealt
from tandem_autoscaler.model.rated import Rated

# A prediction takes a millisecond or two, so that a worker is not rated at each tick.
_REST_SECONDS, _SAME_MIX = 60.0, 0.1
# Rates are tried in steps of 2 %: of a grid that is the same for all times, so that the past does not matter.
_STEP = math.log(1.02)
_LEAST_OF_ALL = 1000.0  # the smallest rate, as a part of what there is time for
REQUESTS_PER_WORKER = "requestsPerWorker"


@dataclass(frozen=True)
class _Question:
    """`allowed`: shares of late first tokens, and of answers with late tokens."""

    worker: Worker
    traffic: Traffic
    promise: Promise
    chunking: Chunking
    allowed: tuple[float, float]

    @property
    def mix(self) -> tuple[float, float]:
        return self.traffic.prompt_tokens, self.traffic.output_tokens

    @property
    def terms(self) -> Hashable:
        """What was asked of whom, beside the mix."""
        return self.promise, self.chunking, self.allowed

    def at(self, arrivals: float) -> Predicted:
        return predict(self.worker, replace(self.traffic, arrivals=arrivals), self.promise, self.chunking)


def rate_worker(
    state: ServiceState, service: Service, targets: Targets, load: Load, settings: Settings, *, ready: int
) -> ServiceState:
    """The state with what one worker serves of the present mix of requests, as long as that can be told."""
    now, before = state.history.now_seconds, state.rated
    question = None if not ready else _question(state, service, targets, load, settings, ready)
    if question is None:
        return state
    mix, terms = question.mix, question.terms
    if (
        before is not None
        and now - before.at_seconds < _REST_SECONDS
        and before.answers(mix, terms, _SAME_MIX)
    ):
        return state
    return changed(state, rated=_rated(question, now, None if before is None else before.requests_per_second))


def need_colocated(state: ServiceState, service: Service, load: Load, *, ready: int) -> Need | None:
    """None while nothing is known of a worker as a whole, or no number of workers keeps both promises."""
    rated, ahead, answers = state.rated, load.prefill_ahead, load.decode_ahead
    if (
        service.disaggregated
        or rated is None
        or not rated.requests_per_second
        or ahead is None
        or answers is None
    ):
        return None
    each = rated.requests_per_second
    rate = max(ahead.rate, answers.rate)
    # While batches of one size only were seen, the batches of twice as many workers will tell the rest.
    most = math.inf if state.decode.proven else 2 * max(ready, 1)
    workers, keep = (
        int(min(most, math.ceil(arrivals / each - 1e-9)))
        for arrivals in (rate, max(ahead.keep, answers.keep))
    )
    because = (
        f"one worker serves {rounded(each)} such requests/s with both promises kept, and more would be late with "
        f"{'their first tokens' if rated.first_is_late else 'their tokens'}; {ahead.because}: {workers} for "
        f"{rounded(rate)}/s"
    )
    return Need(workers, because, {REQUESTS_PER_WORKER: each, "need": float(workers)}, keep=keep)


def _question(
    state: ServiceState, service: Service, targets: Targets, load: Load, settings: Settings, ready: int
) -> _Question | None:
    """None while something of it is not known."""
    pool = service.pools[decode_role(service)]
    prompts, output, step = state.computed_lengths, state.output_tokens, state.mixed.step
    if service.disaggregated or pool.chunking is None or not prompts or not output or step is None:
        return None
    share = kv_per_sequence(load, ready)
    held, _ = context(state)
    worker = Worker(
        step,
        kv_tokens=math.inf if share is None else settings.kv_fill * held / share,
        max_sequences=float(pool.max_sequences or settings.default_max_sequences),
    )
    traffic = Traffic(1.0, prompts, output, dealt(load.arrival_scv, ready))
    promise = Promise(targets.ttft_seconds, targets.tpot_seconds, targets.allowance)
    strict = settings.violation_share * targets.allowance
    first = max(strict, settings.violation_with_demotion) if service.late_demotion else strict
    return _Question(worker, traffic, promise, pool.chunking, (first, strict))


def _rated(question: _Question, now: float, near: float | None) -> Rated:
    """The largest rate of the grid at which both promises are kept. `near`: where to begin, the last one found."""
    beyond = math.ceil(math.log(most_arrivals(question.worker, question.traffic)) / _STEP)
    lowest = beyond - math.ceil(math.log(_LEAST_OF_ALL) / _STEP)
    at = cache(lambda place: question.at(math.exp(place * _STEP)))
    # More workers do not help those who are late on an idle one; half of the others may be (as in ALGORITHM 4.3).
    promise, (first, tokens) = question.promise, question.allowed
    if at(lowest).late_first >= promise.allowance / 2.0:
        first = max(first, at(lowest).late_first + promise.allowance / 2.0)
    if at(lowest).late_tokens >= promise.allowance / 2.0:
        tokens = at(lowest).late_tokens + promise.allowance / 2.0

    def kept(place: int) -> bool:
        return at(place).within(first, tokens)

    if not kept(lowest):
        return Rated(now, *question.mix, question.terms, 0.0, first_is_late=at(lowest).late_first > first)
    start = (lowest + beyond) // 2 if not near else round(math.log(near) / _STEP)
    found = _largest(kept, lowest, beyond, start)
    late = at(min(found + 1, beyond))
    return Rated(
        now, *question.mix, question.terms, math.exp(found * _STEP),
        first_is_late=late.late_first - first >= late.late_tokens - tokens,
    )  # fmt: skip


def _largest(holds: Callable[[int], bool], low: int, high: int, start: int) -> int:
    """The largest place at which it holds, given that it does at `low` and not at `high`, looking from `start` on."""
    stride = 1
    while low < start < high:
        if holds(start):
            low, start = start, start + stride
        else:
            high, start = start, start - stride
        stride *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
