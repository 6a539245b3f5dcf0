"""The event loop of the fleet, compiled.

Nothing here steps through time: between two events everything is known in closed form. A prefill worker serves one
prompt after another. A decode worker runs iterations of tau(B, K) = d0 + d1 B + d2 K; each adds one token to every
sequence, so that m iterations from K take c m + e m (m-1)/2 with c = tau(B, K), e = d2 B. Sequences join and leave
only between iterations, as in a continuously batching engine; the loop jumps to the iteration where that happens.

All compiled functions live in this one file because numba's cache notices changes in the file of the function that it
stored, not in those that it calls. They work on `state.State`, arrays that Python can look into between two calls.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from tandem_autoscaler.simulator.state import State
else:
    State = Any

# Only the entries are called from Python; wrappers for that would take most of the time to compile. Nothing here
# allocates, so numba's reference counting is left out.
inner = njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
entry = njit(error_model="numpy", _nrt=False, no_cfunc_wrapper=True, cache=True)

# Roles, and the rows of everything that is kept per role.
PREFILL: Final = 0
DECODE: Final = 1

# Phases of a worker slot.
ABSENT: Final = 0
STARTING: Final = 1
READY: Final = 2
DRAINING: Final = 3

# Phases of a request.
AHEAD: Final = 0  # has not arrived
AT_ROUTER: Final = 1  # no prefill worker is ready
QUEUED: Final = 2  # at a prefill worker
COMPUTED: Final = 3  # its prompt is being computed
MOVING: Final = 4  # its KV cache is on its way
BETWEEN: Final = 5  # prefilled, no decode worker is ready
WAITING: Final = 6  # at a decode worker, not in the batch
RUNNING: Final = 7
FINISHED: Final = 8
FAILED: Final = 9

# Routers.
LEAST_WORK: Final = 0
POWER_OF_TWO: Final = 1
ROUND_ROBIN: Final = 2
RANDOM: Final = 3

# Histograms of a worker, in the order of their columns.
GATE_TTFT: Final = 0
GATE_TPOT: Final = 1
TTFT: Final = 2
TPOT: Final = 3
INTER_TOKEN: Final = 4
QUEUE: Final = 5
PREFILL_TIME: Final = 6
PROMPT_TOKENS: Final = 7
OUTPUT_TOKENS: Final = 8
STEP_TOKENS: Final = 9
GATE_PROMPT_TOKENS: Final = 10
HISTOGRAMS: Final = 11

# A new sequence must leave some room for the growth of the others.
ADMIT_SHARE: Final = 0.98


# --- first in, first out: linked lists over requests ------------------------------------------------------------
# Queue 0 and 1 are the router's, per role. Worker w has 2 + 2 w, and 3 + 2 w: the low queue of a prefill worker, and
# of a decode worker those in their first iteration.
@inner
def _main(worker: int) -> int:
    return 2 + 2 * worker


@inner
def _low(worker: int) -> int:
    return 3 + 2 * worker


@inner
def _push(s: State, queue: int, request: int) -> None:
    s.requests[request].next = -1
    row = s.queues[queue]
    if row[0] < 0:
        row[0] = request
    else:
        s.requests[row[1]].next = request
    row[1] = request
    row[2] += 1


@inner
def _push_front(s: State, queue: int, request: int) -> None:
    row = s.queues[queue]
    s.requests[request].next = row[0]
    if row[0] < 0:
        row[1] = request
    row[0] = request
    row[2] += 1


@inner
def _unlink(s: State, queue: int, before: int, request: int) -> None:
    """Take out `request`, which follows `before` (-1: it is the head)."""
    row = s.queues[queue]
    after = s.requests[request].next
    if before < 0:
        row[0] = after
    else:
        s.requests[before].next = after
    if after < 0:
        row[1] = before
    row[2] -= 1


@inner
def _pop(s: State, queue: int) -> int:
    request = s.queues[queue, 0]
    _unlink(s, queue, -1, request)
    return request


# --- when what happens ------------------------------------------------------------------------------------------
@inner
def _set_next(s: State, worker: int, at: float) -> None:
    """The worker's next event; `order[0]` is a heap of all slots by that time, `order[1]` where each slot is in it."""
    workers, order, place = s.workers, s.order[0], s.order[1]
    workers[worker].next_at = at
    i = place[worker]
    while i > 0:
        up = (i - 1) >> 1
        if workers[order[up]].next_at <= at:
            break
        order[i] = order[up]
        place[order[i]] = i
        i = up
    size = len(order)
    while True:
        down = 2 * i + 1
        if down >= size:
            break
        if down + 1 < size and workers[order[down + 1]].next_at < workers[order[down]].next_at:
            down += 1
        if workers[order[down]].next_at >= at:
            break
        order[i] = order[down]
        place[order[i]] = i
        i = down
    order[i] = worker
    place[worker] = i


@inner
def _heap_up(heap: Any, i: int, key: float, value: float) -> None:
    """Put (key, value) into the binary heap at place i or above."""
    while i > 0:
        up = (i - 1) >> 1
        if heap[up, 0] <= key:
            break
        heap[i, 0], heap[i, 1] = heap[up, 0], heap[up, 1]
        i = up
    heap[i, 0], heap[i, 1] = key, value


@inner
def _heap_remove(heap: Any, size: int, i: int) -> None:
    """Remove entry i of a binary heap of `size` entries (the caller counts it down)."""
    last = size - 1
    key, value = heap[last, 0], heap[last, 1]
    if i == last:
        return
    while True:
        down = 2 * i + 1
        if down >= last:
            break
        if down + 1 < last and heap[down + 1, 0] < heap[down, 0]:
            down += 1
        if heap[down, 0] >= key:
            break
        heap[i, 0], heap[i, 1] = heap[down, 0], heap[down, 1]
        i = down
    _heap_up(heap, i, key, value)


# --- what is exported -------------------------------------------------------------------------------------------
@inner
def _observe(s: State, worker: int, histogram: int, value: float, times: float) -> None:
    """Into the first bucket whose edge is not below; the last column holds the sum of the values."""
    if not s.fleet[0].exporting:
        return
    edges, counts = s.edges[histogram], s.counts[worker, histogram]
    low, high = 0, len(edges) - 1
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    counts[low] += times
    counts[-1] += value * times


# --- routing ----------------------------------------------------------------------------------------------------
@inner
def _random(s: State, below: int) -> int:
    """Uniform in 0..below-1: xorshift64* (Vigna 2016), because numba's own generator is one for all fleets."""
    f = s.fleet[0]
    x = f.random
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    f.random = x
    return int((x * np.uint64(2685821657736338717)) >> np.uint64(33)) % below


@inner
def _in_flight(s: State, worker: int) -> int:
    w = s.workers[worker]
    return w.running + s.queues[_main(worker), 2] + (s.queues[_low(worker), 2] if w.role == PREFILL else 0)


@inner
def _load(s: State, worker: int, role: int) -> float:
    """Prefill: seconds of work that it has yet to do. Decode: tokens that it holds or will have to hold."""
    w = s.workers[worker]
    if role == PREFILL:
        return w.queued_seconds + max(0.0, w.busy_until - s.fleet[0].now)
    return w.kv + w.running * _iterations_ended(s, worker) + w.waiting_tokens


@inner
def _choose(s: State, role: int) -> int:
    """The worker for a request; -1 when none is ready."""
    ready = s.fleet[0].ready[role]
    if ready == 0:
        return -1
    roster = s.roster[role]
    if ready == 1:
        return roster[0]
    router = s.fleet[0].router
    if router == LEAST_WORK:
        best, least = roster[0], np.inf
        for i in range(ready):
            load = _load(s, roster[i], role)
            if load < least:
                best, least = roster[i], load
        return best
    if router == ROUND_ROBIN:
        s.fleet[0].turn[role] += 1
        return roster[s.fleet[0].turn[role] % ready]
    one = _random(s, ready)
    if router == RANDOM:
        return roster[one]
    other = (one + 1 + _random(s, ready - 1)) % ready
    first, second = roster[one], roster[other]
    return first if _in_flight(s, first) <= _in_flight(s, second) else second


@inner
def _enlist(s: State, role: int) -> None:
    """Note which workers are ready, and give them what waits at the router."""
    ready = 0
    for worker in range(len(s.workers)):
        w = s.workers[worker]
        if w.phase == READY and w.role == role:
            s.roster[role, ready] = worker
            ready += 1
    s.fleet[0].ready[role] = ready
    while ready > 0 and s.queues[role, 2] > 0:
        request = _pop(s, role)
        if role == PREFILL:
            _to_prefill(s, request)
        else:
            _to_decode(s, request)


# --- prefill ----------------------------------------------------------------------------------------------------
@inner
def _to_prefill(s: State, request: int) -> None:
    worker = _choose(s, PREFILL)
    r = s.requests[request]
    if worker < 0:
        r.phase = AT_ROUTER
        _push(s, PREFILL, request)
        return
    w = s.workers[worker]
    r.phase, r.worker, r.joined = QUEUED, worker, s.fleet[0].now
    w.queued_seconds += r.seconds
    w.waiting_tokens += r.prompt
    _push(s, _main(worker), request)
    if w.running == 0:
        _serve(s, worker)
    elif s.fleet[0].late_demotion:
        _demote(s, worker)


@inner
def _serve(s: State, worker: int) -> None:
    """Begin the next prompt of an idle prefill worker, or let it go if it is draining and has none."""
    f, w = s.fleet[0], s.workers[worker]
    main, low = _main(worker), _low(worker)
    if f.late_demotion:
        _demote(s, worker)
    queue = main
    head = s.queues[low, 0]
    if head >= 0 and (s.queues[main, 2] == 0 or f.now - s.requests[head].low_since > f.late_age_cap):
        queue = low
    if s.queues[queue, 2] == 0:
        _set_next(s, worker, np.inf)
        _leave_if_empty(s, worker)
        return
    request = _pop(s, queue)
    r = s.requests[request]
    r.phase, r.admitted = COMPUTED, f.now
    w.running, w.serving = 1, request
    w.queued_seconds -= r.seconds
    w.waiting_tokens -= r.prompt
    w.kv += r.prompt
    w.busy_until = f.now + r.seconds
    w.busy_seconds += r.seconds
    _set_next(s, worker, w.busy_until)


@inner
def _demote(s: State, worker: int) -> None:
    """Late demotion: walk the queue; when a request would be late, the longest up to it goes to the low queue.

    That is Moore's and Hodgson's rule for the fewest late jobs, with the requests in order of arrival, hence of
    their due times. One that would be late even if it were served next goes low itself.
    """
    f, w = s.fleet[0], s.workers[worker]
    main = _main(worker)
    start = max(f.now, w.busy_until) if w.running else f.now
    finish = start
    before, request = -1, s.queues[main, 0]
    while request >= 0:
        after = s.requests[request].next
        r = s.requests[request]
        if start + r.believed_seconds > r.due:
            _lower(s, worker, before, request)
            request = after
            continue
        finish += r.believed_seconds
        kept = True
        while kept and finish > r.due:
            longest, longest_before = request, before
            most = r.believed_seconds
            at_before, at = -1, s.queues[main, 0]
            while at != request:
                if s.requests[at].believed_seconds > most:
                    most = s.requests[at].believed_seconds
                    longest, longest_before = at, at_before
                at_before, at = at, s.requests[at].next
            finish -= most
            kept = longest != request
            if longest == before:
                before = longest_before
            _lower(s, worker, longest_before, longest)
        if kept:
            before = request
        request = after


@inner
def _lower(s: State, worker: int, before: int, request: int) -> None:
    _unlink(s, _main(worker), before, request)
    s.requests[request].low_since = s.fleet[0].now
    _push(s, _low(worker), request)
    s.fleet[0].demotions += 1


@inner
def _prefilled(s: State, worker: int) -> None:
    """The prompt is computed: its KV cache goes out, and the next prompt begins."""
    f, w = s.fleet[0], s.workers[worker]
    request = w.serving
    r = s.requests[request]
    r.phase, r.prefilled = MOVING, f.now
    f.prefilled += 1
    f.prompt_tokens_prefilled += r.prompt
    w.finished += 1
    w.prompt_tokens += r.prompt
    w.prompt_tokens_computed += r.prompt
    w.output_tokens += 1
    since_arrival, in_engine = f.now - r.arrival, f.now - r.joined
    _observe(s, worker, GATE_TTFT, since_arrival, 1.0)
    _observe(s, worker, TTFT, in_engine, 1.0)
    _observe(s, worker, QUEUE, r.admitted - r.joined, 1.0)
    _observe(s, worker, PREFILL_TIME, f.now - r.admitted, 1.0)
    _observe(s, worker, PROMPT_TOKENS, r.prompt, 1.0)
    _observe(s, worker, GATE_PROMPT_TOKENS, r.prompt, 1.0)
    _observe(s, worker, OUTPUT_TOKENS, 1.0, 1.0)
    _observe(s, worker, STEP_TOKENS, r.prompt, 1.0)
    w.running, w.serving = 0, -1
    w.transfers += 1
    _heap_up(s.transfers, f.transfers, f.now + r.transfer_seconds, request)
    f.transfers += 1
    _serve(s, worker)


@inner
def _transferred(s: State) -> None:
    f = s.fleet[0]
    request = int(s.transfers[0, 1])
    _heap_remove(s.transfers, f.transfers, 0)
    f.transfers -= 1
    r = s.requests[request]
    w = s.workers[r.worker]
    w.transfers -= 1
    w.kv -= r.prompt
    _leave_if_empty(s, r.worker)
    _to_decode(s, request)


# --- decode -----------------------------------------------------------------------------------------------------
@inner
def _to_decode(s: State, request: int) -> None:
    worker = _choose(s, DECODE)
    r = s.requests[request]
    if worker < 0:
        r.phase = BETWEEN
        _push(s, DECODE, request)
        return
    w = s.workers[worker]
    queue = _main(worker)
    none_waited = s.queues[queue, 2] == 0
    r.phase, r.worker, r.joined = WAITING, worker, s.fleet[0].now
    w.waiting_tokens += r.prompt
    _push(s, queue, request)
    if w.running == 0:
        _between_iterations(s, worker)
    elif none_waited:
        # It may join after the iteration that is under way. Where others wait, that is settled already.
        iterations = _iterations_until(s, worker, s.fleet[0].now)
        if iterations < w.jump:
            w.jump = iterations
            _set_next(s, worker, w.at + _seconds_of(s, worker, iterations))


@inner
def _seconds_of(s: State, worker: int, iterations: int) -> float:
    """Time of so many iterations with the present batch."""
    f, w = s.fleet[0], s.workers[worker]
    first = f.d0 + f.d1 * w.running + f.d2 * w.kv
    return first * iterations + f.d2 * w.running * iterations * (iterations - 1) * 0.5


@inner
def _iterations(s: State, worker: int, seconds: float) -> float:
    """The inverse of `_seconds_of`, not rounded."""
    f, w = s.fleet[0], s.workers[worker]
    growth = f.d2 * w.running
    linear = f.d0 + f.d1 * w.running + f.d2 * w.kv - 0.5 * growth
    return 2.0 * seconds / (linear + np.sqrt(linear * linear + 2.0 * growth * seconds))


@inner
def _iterations_until(s: State, worker: int, at: float) -> int:
    """How many iterations end before the one that begins at or after `at`; one at least is always under way."""
    seconds = at - s.workers[worker].at
    return max(1, int(np.ceil(_iterations(s, worker, seconds) - 1e-9))) if seconds > 0.0 else 1


@inner
def _iterations_ended(s: State, worker: int) -> int:
    """Whole iterations since `at`. The one that brings the next event has not ended."""
    w = s.workers[worker]
    seconds = s.fleet[0].now - w.at
    if w.running == 0 or w.jump < 2 or seconds <= 0.0:
        return 0
    return min(int(_iterations(s, worker, seconds) + 1e-9), w.jump - 1)


@inner
def _progress(s: State, worker: int, iterations: int) -> None:
    """Count what so many iterations make. The clock `at` is the caller's."""
    f, w = s.fleet[0], s.workers[worker]
    made = iterations * w.running
    gaps = made - s.queues[_low(worker), 2]  # a first token follows no other
    seconds = _seconds_of(s, worker, iterations) / iterations + w.stalled
    if gaps > 0:
        _observe(s, worker, INTER_TOKEN, seconds, gaps)
    _observe(s, worker, STEP_TOKENS, w.running, iterations)
    w.iterations += iterations
    w.kv += made
    w.output_tokens += made
    f.output_tokens += made
    w.stalled = 0.0


@inner
def _between_iterations(s: State, worker: int) -> None:
    """The batch between two iterations: who has a first token, who ends, who must go, who joins."""
    f, w = s.fleet[0], s.workers[worker]
    now = f.now
    if w.running > 0:
        _progress(s, worker, w.jump)
    w.at = now
    batch = s.batches[worker]
    waiting, first = _main(worker), _low(worker)
    while s.queues[first, 2] > 0:
        _first_token(s, worker, _pop(s, first))
    while w.running > 0 and batch[0, 0] <= w.iterations:
        request = int(batch[0, 1])
        _heap_remove(batch, w.running, 0)
        w.running -= 1
        _finish(s, worker, request)
    preempted = False
    while w.running > 0 and w.kv + w.running > f.kv_tokens:
        _preempt(s, worker)
        preempted = True
    if w.running == 0:
        preempted = False  # the last one went: now see who fits
    while not preempted and s.queues[waiting, 2] > 0 and w.running < f.max_sequences:
        request = s.queues[waiting, 0]
        r = s.requests[request]
        context = r.prompt + r.made
        if w.kv + context > ADMIT_SHARE * f.kv_tokens:
            if w.running > 0:
                break
            # It fits into no empty worker, so it never will.
            _pop(s, waiting)
            w.waiting_tokens -= context
            w.ended += 1
            _fail(s, request)
            continue
        _pop(s, waiting)
        w.waiting_tokens -= context
        w.kv += context
        _heap_up(batch, w.running, w.iterations + r.output - r.made, request)
        w.running += 1
        f.admissions += 1
        r.phase, r.order = RUNNING, f.admissions
        if r.made > 0:
            w.stalled += f.a + f.b * context + f.c * context * context
            w.prompt_tokens_computed += context
        else:
            r.admitted = now
            _push(s, first, request)
    if w.running == 0:
        _set_next(s, worker, np.inf)
        _leave_if_empty(s, worker)
        return
    w.at = now + w.stalled
    if s.queues[first, 2] > 0 or w.stalled > 0.0:
        w.jump = 1
    else:
        room = int((f.kv_tokens - w.kv) // w.running)
        w.jump = min(int(batch[0, 0]) - w.iterations, max(1, room))
    _set_next(s, worker, w.at + _seconds_of(s, worker, w.jump))


@inner
def _first_token(s: State, worker: int, request: int) -> None:
    f, w, r = s.fleet[0], s.workers[worker], s.requests[request]
    r.first = f.now
    s.log[0, f.first_tokens] = request
    f.first_tokens += 1
    w.prompt_tokens += r.prompt
    _observe(s, worker, GATE_TTFT, f.now - r.prefilled, 1.0)
    _observe(s, worker, TTFT, f.now - r.joined, 1.0)


@inner
def _finish(s: State, worker: int, request: int) -> None:
    f, w, r = s.fleet[0], s.workers[worker], s.requests[request]
    r.phase, r.finished = FINISHED, f.now
    s.log[1, f.finished] = request
    f.finished += 1
    w.kv -= r.prompt + r.output
    w.finished += 1
    w.ended += 1
    if r.output > 1:
        per_token = (f.now - r.first) / (r.output - 1)
        _observe(s, worker, GATE_TPOT, per_token, 1.0)
        _observe(s, worker, TPOT, per_token, 1.0)
    _observe(s, worker, QUEUE, r.admitted - r.joined, 1.0)
    _observe(s, worker, PREFILL_TIME, r.first - r.admitted, 1.0)
    _observe(s, worker, PROMPT_TOKENS, r.prompt, 1.0)
    _observe(s, worker, OUTPUT_TOKENS, r.output, 1.0)


@inner
def _preempt(s: State, worker: int) -> None:
    """The newest sequence leaves the batch and loses its KV cache (vLLM's recompute preemption)."""
    w = s.workers[worker]
    batch = s.batches[worker]
    newest = 0
    for i in range(1, w.running):
        if s.requests[int(batch[i, 1])].order > s.requests[int(batch[newest, 1])].order:
            newest = i
    request = int(batch[newest, 1])
    r = s.requests[request]
    r.made = r.output - (batch[newest, 0] - w.iterations)
    _heap_remove(batch, w.running, newest)
    w.running -= 1
    context = r.prompt + r.made
    w.kv -= context
    w.waiting_tokens += context
    w.preemptions += 1
    s.fleet[0].preemptions += 1
    r.phase = WAITING
    _push_front(s, _main(worker), request)


# --- workers come and go ----------------------------------------------------------------------------------------
@inner
def _fail(s: State, request: int) -> None:
    s.requests[request].phase = FAILED
    s.fleet[0].failed += 1


@inner
def _account(s: State, worker: int) -> None:
    """GPU seconds in its role until now, of those between the warm-up and the trace's end."""
    f, w = s.fleet[0], s.workers[worker]
    begin, end = max(w.role_since, f.count_from), min(f.now, f.count_to)
    f.worker_seconds[w.role] += max(0.0, end - begin)
    w.role_since = f.now


@inner
def _vanish(s: State, worker: int) -> None:
    _account(s, worker)
    s.workers[worker].phase = ABSENT
    _set_next(s, worker, np.inf)


@inner
def _leave_if_empty(s: State, worker: int) -> None:
    w = s.workers[worker]
    if w.phase != DRAINING or w.running or w.transfers or s.queues[_main(worker), 2]:
        return
    if w.role == PREFILL and s.queues[_low(worker), 2]:
        return
    _vanish(s, worker)
    if w.flip_to >= 0:
        f = s.fleet[0]
        role = w.flip_to
        _clear(s, worker)
        w.role, w.created, w.role_since, w.flipped = role, f.now, f.now, 1
        w.phase, w.ready_at = STARTING, f.now + f.flip_seconds
        _set_next(s, worker, w.ready_at)


@inner
def _clear(s: State, worker: int) -> None:
    """A new worker in this slot: everything at zero, and a number that no other had."""
    f, w = s.fleet[0], s.workers[worker]
    f.made_workers += 1
    w.uid = f.made_workers
    w.running, w.transfers, w.serving, w.flip_to, w.flipped = 0, 0, -1, -1, 0
    w.busy_until, w.busy_seconds, w.queued_seconds, w.waiting_tokens, w.kv = 0.0, 0.0, 0.0, 0.0, 0.0
    w.at, w.stalled, w.iterations, w.jump = f.now, 0.0, 0, 0
    w.finished, w.ended, w.preemptions = 0, 0, 0
    w.prompt_tokens, w.prompt_tokens_computed, w.output_tokens = 0.0, 0.0, 0.0
    s.counts[worker, :, :] = 0.0
    for queue in (_main(worker), _low(worker)):
        s.queues[queue, 0] = -1
        s.queues[queue, 1] = -1
        s.queues[queue, 2] = 0


# The entries below change single workers and leave it to the next `advance` to draw the consequences: so each is
# compiled in a moment, and only `advance` takes its time.
@entry
def start(s: State, worker: int, role: int, created: float, ready_at: float) -> None:
    """A worker in an absent slot. One whose `ready_at` has passed is ready with the next `advance`."""
    f, w = s.fleet[0], s.workers[worker]
    _clear(s, worker)
    w.role, w.created, w.role_since = role, created, f.now
    w.phase, w.ready_at = STARTING, ready_at
    _set_next(s, worker, max(ready_at, f.now))


@entry
def release(s: State, worker: int, flip_to: int) -> None:
    """A starting worker vanishes. A ready one drains and goes when it is empty, or into the role `flip_to`."""
    w = s.workers[worker]
    if w.phase == STARTING:
        _vanish(s, worker)
    elif w.phase == READY:
        w.phase, w.flip_to = DRAINING, flip_to
        s.fleet[0].changed = 1


@entry
def undrain(s: State, worker: int) -> None:
    """A draining worker takes requests again."""
    w = s.workers[worker]
    w.phase, w.flip_to = READY, -1
    s.fleet[0].changed = 1


@entry
def crash(s: State, worker: int) -> None:
    """The worker is gone, and all that was on it has failed."""
    f, w = s.fleet[0], s.workers[worker]
    queue = _main(worker)
    while s.queues[queue, 2] > 0:
        _fail(s, _pop(s, queue))
    if w.role == PREFILL:
        queue = _low(worker)
        while s.queues[queue, 2] > 0:
            _fail(s, _pop(s, queue))
        if w.running > 0:
            _fail(s, w.serving)
        i = 0
        while i < f.transfers:
            request = int(s.transfers[i, 1])
            if s.requests[request].worker == worker:
                _heap_remove(s.transfers, f.transfers, i)
                f.transfers -= 1
                _fail(s, request)
                i = 0
            else:
                i += 1
    else:
        for i in range(w.running):
            _fail(s, int(s.batches[worker, i, 1]))
    w.running, w.transfers = 0, 0
    _vanish(s, worker)
    f.changed = 1


@inner
def _settle(s: State) -> None:
    """Draw the consequences of what was done to workers."""
    s.fleet[0].changed = 0
    for worker in range(len(s.workers)):
        _leave_if_empty(s, worker)
    _enlist(s, PREFILL)
    _enlist(s, DECODE)


# --- the loop ---------------------------------------------------------------------------------------------------
@entry
def advance(s: State, until: float) -> None:
    """Everything that happens up to `until`, in order."""
    f = s.fleet[0]
    requests = len(s.requests)
    if f.changed:
        _settle(s)
    while True:
        worker = s.order[0, 0]
        worker_at = s.workers[worker].next_at
        transfer_at = s.transfers[0, 0] if f.transfers > 0 else np.inf
        arrival_at = s.requests[f.arrived].arrival if f.arrived < requests else np.inf
        at = min(worker_at, transfer_at, arrival_at)
        if not at <= until or at == np.inf:
            break
        f.now = at
        if worker_at == at:
            w = s.workers[worker]
            if w.phase == STARTING:
                w.phase = READY
                w.at = at
                _set_next(s, worker, np.inf)
                _enlist(s, w.role)
            elif w.role == PREFILL:
                _prefilled(s, worker)
            else:
                _between_iterations(s, worker)
        elif transfer_at == at:
            _transferred(s)
        else:
            request = f.arrived
            f.arrived += 1
            f.prompt_tokens_arrived += s.requests[request].prompt
            _to_prefill(s, request)
    f.now = max(f.now, until)
    for worker in range(len(s.workers)):
        # Count the iterations that have ended, so that whoever looks now sees what is true now.
        w = s.workers[worker]
        if w.role == DECODE:
            ended = _iterations_ended(s, worker)
            if ended > 0:
                seconds = _seconds_of(s, worker, ended)
                _progress(s, worker, ended)
                w.at += seconds
                w.jump -= ended
