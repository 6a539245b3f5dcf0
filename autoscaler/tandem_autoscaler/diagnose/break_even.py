"""Colocated or Disaggregated for the same traffic: the GPUs of each by the models, and where they are even. Pure.

Colocated, prompts and answers share their steps, so that either promise limits both (`model/colocated.py`, with the
best chunking for it). Apart, prefill is a queue of prompts (`model/queueing.py`) and decode a batch (`decide`'s
square-root staffing): no one is in the way of the other, but each role reads the weights by itself and is rounded up to
whole workers, and the KV cache crosses the network. Workers have queues of their own in both, so that they compare.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tandem_autoscaler.decide.need_decode import staffed
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.diagnose.chunking import Grid
from tandem_autoscaler.model.colocated import Promise, Traffic, Worker, capacity, predict
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.model.queueing import smallest_pool

# As decide sizes: a little inside the target, KV cache nearly full, some deviations of the batch.
_SIZED = Settings()


@dataclass(frozen=True)
class Kinds:
    """The workers. `transfer_seconds`: KV cache of one prompt, from prefill to decode, and the first step there.

    `chunks`: what a colocated worker may be set to.
    """

    colocated: Worker
    colocated_gpus: int
    prefill: Worker
    prefill_gpus: int
    decode: Worker
    decode_gpus: int
    transfer_seconds: float = 0.05
    chunks: Grid = field(default_factory=Grid)


@dataclass(frozen=True)
class Compared:
    """GPUs that keep both promises, and the workers of each role among them; None: no number does."""

    colocated: int | None
    chunking: Chunking | None
    disaggregated: int | None
    prefill: int | None
    decode: int | None

    @property
    def gain(self) -> float | None:
        """By how much more a GPU serves apart than together: 0.75 is +75 %. None: one of them cannot."""
        if not self.colocated or not self.disaggregated:
            return None
        return self.colocated / self.disaggregated - 1.0

    @property
    def better(self) -> str | None:
        """The mode with fewer GPUs; Colocated where both need as many. None: neither can."""
        if self.colocated is None and self.disaggregated is None:
            return None
        if self.colocated is None:
            return "Disaggregated"
        if self.disaggregated is None or self.colocated <= self.disaggregated:
            return "Colocated"
        return "Disaggregated"


def compare(kinds: Kinds, traffic: Traffic, promise: Promise) -> Compared:
    """Both modes at their best for this traffic."""
    together, chunking = _colocated(kinds, traffic, promise)
    prefill, decode = _prefill(kinds, traffic, promise), _decode(kinds, traffic, promise)
    apart = _apart(kinds, prefill, decode)
    return Compared(together, chunking, apart, prefill, decode)


def even_tpot(kinds: Kinds, traffic: Traffic, promise: Promise) -> float | None:
    """The TPOT target in seconds below which Disaggregated needs fewer GPUs; None: at no target from 1 ms to 1 s."""
    prefill = _prefill(kinds, traffic, promise)

    def apart_is_better(seconds: float) -> bool:
        at = replace(promise, tpot_seconds=seconds)
        apart = _apart(kinds, prefill, _decode(kinds, traffic, at))
        return apart is not None and not _together_on(apart, kinds, traffic, at)

    return _last(apart_is_better, kinds.decode.step.base, 1.0)


def _together_on(gpus: int, kinds: Kinds, traffic: Traffic, promise: Promise) -> bool:
    """Do so many GPUs keep both promises Colocated, with any chunks?

    One prediction for each tells, where the fewest (`_colocated`) take a search for each.
    """
    workers = gpus // kinds.colocated_gpus
    if workers < 1:
        return False
    of_one = replace(traffic, arrivals=traffic.arrivals / workers)
    return any(
        predict(kinds.colocated, of_one, promise, one).keeps(promise) for one in kinds.chunks.settings()
    )


def _last(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """The largest of 24 values between (evenly by ratio) at which it holds; None of none."""
    values = [low * (high / low) ** (i / 23.0) for i in range(24)]
    return next((value for value in reversed(values) if holds(value)), None)


def _apart(kinds: Kinds, prefill: int | None, decode: int | None) -> int | None:
    """GPUs of so many workers of each role; None where one of them cannot keep its promise."""
    if prefill is None or decode is None:
        return None
    return prefill * kinds.prefill_gpus + decode * kinds.decode_gpus


def _colocated(kinds: Kinds, traffic: Traffic, promise: Promise) -> tuple[int | None, Chunking | None]:
    rated = {one: capacity(kinds.colocated, traffic, promise, one) for one in kinds.chunks.settings()}
    best = max(rated, key=lambda one: rated[one])
    if rated[best] <= 0.0:
        return None, None
    return math.ceil(traffic.arrivals / rated[best]) * kinds.colocated_gpus, best


def _prefill(kinds: Kinds, traffic: Traffic, promise: Promise) -> int | None:
    step = kinds.prefill.step
    times = [
        (kinds.prefill.latency_seconds + step.base + step.of_prompt(tokens), share)
        for tokens, share in traffic.prompts
    ]
    target = _SIZED.safety * promise.ttft_seconds - kinds.transfer_seconds
    sizing = smallest_pool(
        traffic.arrivals,
        times,
        target,
        promise.allowance,
        allowed=promise.allowance,
        arrival_scv=traffic.arrival_scv,
    )
    return sizing.workers if sizing.feasible else None


def _decode(kinds: Kinds, traffic: Traffic, promise: Promise) -> int | None:
    worker = kinds.decode
    context = traffic.context_tokens
    model = DecodeModel(
        context_tokens=context, base_seconds=worker.step.base, seconds_per_sequence=worker.step.per_sequence,
        seconds_per_context_token=worker.step.per_context,
    )  # fmt: skip
    most = min(worker.max_sequences, _SIZED.kv_fill * worker.kv_tokens / context)
    limit = model.largest_batch(_SIZED.safety * promise.tpot_seconds, most)
    if limit < 1.0 or not math.isfinite(limit):
        return None
    return staffed(traffic.arrivals * traffic.output_tokens, model, limit, _SIZED.fluctuation)
