"""Workers that compute prompts and answers in the same steps, one step at a time, compiled.

The scheduler is vLLM 0.32's (v1/core/sched/scheduler.py), as far as it decides who gets how many tokens of a step:
running sequences in the order of their admission, then waiting ones first come first served, all within the budget;
a prompt gets `threshold` at most while anyone else is there. Who finds no KV cache makes the newest give his up.
tests/simulator/colocated_reference.py is the same in plain Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.trace import Trace

_inner = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
_entry = njit(error_model="numpy", no_cfunc_wrapper=True, cache=True)


@dataclass(frozen=True)
class Served:
    """Per request, in the trace's order. Seconds; infinite of a request that fits no KV cache.

    `tpot` of an answer of one token is 0. `worker`: the place of the one that served it. `stepped`: per worker and
    second of the trace, the steps that ended in it; those after its end count for the last second.
    """

    ttft: NDArray[np.float64]
    tpot: NDArray[np.float64]
    finished: NDArray[np.float64]
    worker: NDArray[np.int64]
    stepped: NDArray[np.int64]
    steps: int

    def in_time(
        self, ttft_seconds: float, tpot_seconds: float, chosen: NDArray[np.bool_] | None = None
    ) -> float:
        """Share that keeps both promises, of all or of the chosen ones."""
        good = (self.ttft <= ttft_seconds) & (self.tpot <= tpot_seconds)
        return float(np.mean(good if chosen is None else good[chosen]))


def serve(trace: Trace, workers: Sequence[Hardware], chunking: Chunking, *, seed: int = 1) -> Served:
    """All of the trace's requests, dealt by a router that takes the one of two workers with fewer open requests.

    A worker's step takes what `Hardware` says of prefill and decode together (model/mixed_step.py). What a prompt
    alone takes beyond its first step (HTTP, tokenizer) passes before it is seen.

    Raises:
        ValueError: prompts are not cut, and the budget does not hold the longest request.
    """
    longest = int(np.max(trace.prompt + trace.output, initial=0))
    if not chunking.enabled and longest > chunking.budget:
        raise ValueError(
            f"a request has {longest} tokens, and prompts are computed in one step of {chunking.budget}"
        )
    requests, at = len(trace.arrival), len(workers)
    most = max(worker.max_sequences for worker in workers)
    f = _Fleet(
        arrival=trace.arrival, prompt=trace.prompt.astype(np.int64), output=trace.output.astype(np.int64),
        made=np.zeros(requests, np.int64), computed=np.zeros(requests, np.int64),
        first=np.full(requests, np.inf), finished=np.full(requests, np.inf), worker=np.zeros(requests, np.int64),
        step=np.array([[*w.decode, *w.prefill[1:], max(0.0, w.prefill[0] - w.decode[0])] for w in workers]),
        kv_tokens=np.array([w.kv_tokens for w in workers], np.int64),
        most=np.array([w.max_sequences for w in workers], np.int64),
        running=np.zeros((at, most), np.int64), share=np.zeros((at, most), np.int64),
        waiting=np.full((at, 2 * requests + 2), -1, np.int64),
        stepped=np.zeros((at, int(trace.arrival[-1] if requests else 0) + 2), np.int64),
        counts=np.zeros((at, 4), np.int64), busy_until=np.full(at, np.inf), totals=np.zeros(2, np.int64),
    )  # fmt: skip
    f.counts[:, _HEAD] = f.counts[:, _TAIL] = requests + 1
    _run(f, chunking.budget, chunking.threshold, chunking.enabled, np.uint64(seed * 2 + 1))
    served = np.isfinite(f.finished)
    tpot = np.where(served, 0.0, np.inf)
    several = served & (f.output > 1)
    tpot[several] = (f.finished[several] - f.first[several]) / (f.output[several] - 1)
    return Served(f.first - trace.arrival, tpot, f.finished, f.worker, f.stepped, int(f.totals[0]))


class _Fleet(NamedTuple):
    """Per request, then per worker. `step` rows: d0, d1, d2, b, c, seconds before a prompt is seen."""

    arrival: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    made: NDArray[np.int64]
    computed: NDArray[np.int64]
    first: NDArray[np.float64]
    finished: NDArray[np.float64]
    worker: NDArray[np.int64]
    step: NDArray[np.float64]
    kv_tokens: NDArray[np.int64]
    most: NDArray[np.int64]
    running: NDArray[np.int64]  # in the order of admission
    share: NDArray[np.int64]  # tokens of each in the step that is under way
    waiting: NDArray[np.int64]  # from the middle, because who was pushed out comes to the front
    counts: NDArray[np.int64]  # columns below
    stepped: NDArray[np.int64]  # steps that ended in each second
    busy_until: NDArray[np.float64]
    totals: NDArray[np.int64]  # steps, pushed out


_RUNNING, _HEAD, _TAIL, _KV = 0, 1, 2, 3


@_inner
def _tokens(f: _Fleet, request: int) -> int:
    """What it consists of so far; one that was pushed out computes its answer's tokens again."""
    return f.prompt[request] + f.made[request]


@_inner
def _push_out_newest(f: _Fleet, w: int) -> None:
    count = f.counts[w]
    count[_RUNNING] -= 1
    request = f.running[w, count[_RUNNING]]
    count[_KV] -= f.computed[request]
    f.computed[request] = 0
    count[_HEAD] -= 1
    f.waiting[w, count[_HEAD]] = request
    f.totals[1] += 1


@_inner
def _give_to_running(f: _Fleet, w: int, budget: int, cap: int) -> tuple[int, bool]:
    """(budget that is left, whether someone was pushed out)."""
    count, position, pushed = f.counts[w], 0, False
    while position < count[_RUNNING] and budget > 0:
        request = f.running[w, position]
        share = min(_tokens(f, request) - f.computed[request], budget)
        if cap > 0:
            share = min(share, cap)
        while count[_KV] + share > f.kv_tokens[w] and count[_RUNNING] > position:
            # A share that was given in this step goes with its owner: those behind `position` have none yet.
            _push_out_newest(f, w)
            pushed = True
        if count[_RUNNING] <= position:
            break
        f.share[w, position] = share
        count[_KV] += share
        budget -= share
        position += 1
    for rest in range(position, count[_RUNNING]):
        f.share[w, rest] = 0
    return budget, pushed


@_inner
def _give_to_waiting(f: _Fleet, w: int, budget: int, cap: int, chunked: bool) -> None:
    count = f.counts[w]
    while budget > 0 and count[_HEAD] < count[_TAIL] and count[_RUNNING] < f.most[w]:
        request = f.waiting[w, count[_HEAD]]
        if _tokens(f, request) + f.output[request] - f.made[request] > f.kv_tokens[w]:
            count[_HEAD] += 1  # it fits nowhere: never first, never finished
            continue
        share = _tokens(f, request)
        if cap > 0:
            share = min(share, cap)
        if not chunked and share > budget:
            break
        share = min(share, budget)
        if count[_KV] + share > f.kv_tokens[w]:
            break
        count[_HEAD] += 1
        f.running[w, count[_RUNNING]] = request
        f.share[w, count[_RUNNING]] = share
        count[_RUNNING] += 1
        count[_KV] += share
        budget -= share


@_inner
def _begin(f: _Fleet, w: int, now: float, budget: int, threshold: int, chunked: bool) -> None:
    count = f.counts[w]
    there = count[_RUNNING] + count[_TAIL] - count[_HEAD]
    cap = threshold if there > 1 else 0
    left, pushed = _give_to_running(f, w, budget, cap)
    if not pushed:
        _give_to_waiting(f, w, left, cap, chunked)
    d0, d1, d2, b, c, _ = f.step[w]
    seconds, anyone = d0, False
    for position in range(count[_RUNNING]):
        share = f.share[w, position]
        if share == 0:
            continue
        anyone = True
        request = f.running[w, position]
        computed = f.computed[request]
        seconds += d2 * computed
        if f.made[request] > 0 and share == 1:
            seconds += d1
        else:
            seconds += share * (b + c * (2.0 * computed + share))
    if not anyone:
        f.busy_until[w] = np.inf
        return
    f.totals[0] += 1
    f.busy_until[w] = now + seconds


@_inner
def _end(f: _Fleet, w: int, now: float) -> None:
    count, kept = f.counts[w], 0
    f.stepped[w, min(int(now), f.stepped.shape[1] - 1)] += 1
    for position in range(count[_RUNNING]):
        request = f.running[w, position]
        f.computed[request] += f.share[w, position]
        if f.share[w, position] > 0 and f.computed[request] == _tokens(f, request):
            f.made[request] += 1
            if f.made[request] == 1:
                f.first[request] = now
        if f.made[request] == f.output[request]:
            f.finished[request] = now
            count[_KV] -= f.computed[request]
            continue
        f.running[w, kept] = request
        kept += 1
    count[_RUNNING] = kept


@_inner
def _open(f: _Fleet, w: int) -> int:
    return f.counts[w, _RUNNING] + f.counts[w, _TAIL] - f.counts[w, _HEAD]


@_inner
def _random(x: np.uint64) -> np.uint64:
    """xorshift64 (Marsaglia 2003)."""
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    return x ^ (x << np.uint64(17))


@_entry
def _run(f: _Fleet, budget: int, threshold: int, chunked: bool, random: np.uint64) -> None:
    workers, coming = len(f.kv_tokens), 0
    while True:
        w = int(np.argmin(f.busy_until))
        step_at = f.busy_until[w]
        arrival_at = f.arrival[coming] + f.step[0, 5] if coming < len(f.arrival) else np.inf
        if step_at == np.inf and arrival_at == np.inf:
            return
        if step_at < arrival_at:
            _end(f, w, step_at)
            _begin(f, w, step_at, budget, threshold, chunked)
            continue
        chosen = np.int64(0)
        if workers > 1:
            random = _random(random)
            chosen = np.int64(random >> np.uint64(33)) % workers
            random = _random(random)
            other = (chosen + 1 + np.int64(random >> np.uint64(33)) % (workers - 1)) % workers
            if _open(f, other) < _open(f, chosen):
                chosen = other
        f.worker[coming] = chosen
        f.waiting[chosen, f.counts[chosen, _TAIL]] = coming
        f.counts[chosen, _TAIL] += 1
        coming += 1
        if f.busy_until[chosen] == np.inf:
            f.busy_until[chosen] = arrival_at  # it begins once all that come in this moment are there
