"""The arrays that hold a fleet's state. core.py works on them, fleet.py looks into them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator import core
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.trace import Trace

_REQUEST = np.dtype([
    ("arrival", "f8"), ("prompt", "f8"), ("output", "f8"),
    ("seconds", "f8"),  # prefill, alone
    ("believed_seconds", "f8"),  # what late demotion takes it for
    ("due", "f8"),  # when its prefill must be done for the first token to be in time
    ("transfer_seconds", "f8"),
    ("joined", "f8"), ("low_since", "f8"), ("admitted", "f8"),
    ("prefilled", "f8"), ("first", "f8"), ("finished", "f8"),  # moments; inf: never
    ("made", "f8"),  # output tokens when it was last preempted
    ("phase", "i8"), ("worker", "i8"), ("order", "i8"),  # of admission into a batch
    ("next", "i8"),  # the next request in the same queue, -1: none
])  # fmt: skip

_WORKER = np.dtype([
    ("role", "i8"), ("phase", "i8"), ("uid", "i8"), ("flip_to", "i8"), ("flipped", "i8"),
    ("created", "f8"), ("ready_at", "f8"), ("role_since", "f8"),
    ("next_at", "f8"),  # its next event
    ("running", "i8"), ("kv", "f8"), ("waiting_tokens", "f8"),
    # prefill
    ("serving", "i8"), ("busy_until", "f8"), ("queued_seconds", "f8"), ("busy_seconds", "f8"), ("transfers", "i8"),
    # decode: the time `at` when the present iteration begins, how many were made, how many until the next event
    ("at", "f8"), ("iterations", "i8"), ("jump", "i8"), ("stalled", "f8"),
    # counters
    ("finished", "i8"), ("ended", "i8"), ("preemptions", "i8"),
    ("prompt_tokens", "f8"), ("prompt_tokens_computed", "f8"), ("output_tokens", "f8"),
])  # fmt: skip

_FLEET = np.dtype([
    ("now", "f8"), ("count_from", "f8"), ("count_to", "f8"),
    ("a", "f8"), ("b", "f8"), ("c", "f8"), ("d0", "f8"), ("d1", "f8"), ("d2", "f8"),
    ("kv_tokens", "f8"), ("max_sequences", "i8"),
    ("router", "i8"), ("late_demotion", "i8"), ("late_age_cap", "f8"), ("flip_seconds", "f8"),
    ("changed", "i8"),  # workers were, since the last event
    ("exporting", "i8"),  # histograms are kept
    ("transfers", "i8"), ("made_workers", "i8"), ("admissions", "i8"),
    ("arrived", "i8"), ("prefilled", "i8"), ("first_tokens", "i8"), ("finished", "i8"), ("failed", "i8"),
    ("preemptions", "i8"), ("demotions", "i8"),
    ("prompt_tokens_arrived", "f8"), ("prompt_tokens_prefilled", "f8"), ("output_tokens", "f8"),
    ("random", "u8"),
    # per role: ready workers, round robin, seconds of workers that are gone
    ("ready", "i8", (2,)), ("turn", "i8", (2,)), ("worker_seconds", "f8", (2,)),
])  # fmt: skip


class State(NamedTuple):
    """n requests, W worker slots, S sequences of a batch at most, H histograms of E buckets at most.

    Few arrays, because each one makes every compiled function longer.
    """

    fleet: Any  # (1,) of _FLEET
    requests: Any  # (n,) of _REQUEST
    workers: Any  # (W,) of _WORKER
    queues: NDArray[np.int64]  # (2 + 2 W, 3) head, tail, length
    order: NDArray[np.int64]  # (2, W) heap of the slots by their next event, and each slot's place in it
    roster: NDArray[np.int64]  # (2, W) the ready workers of each role
    batches: NDArray[np.float64]  # (W, S, 2) heap per worker: iteration after which a sequence ends, request
    transfers: NDArray[np.float64]  # (n, 2) heap of the KV transfers: end, request
    log: NDArray[np.int64]  # (2, n) requests in the order of their first tokens, and of their ends
    edges: NDArray[np.float64]  # (H, E) upper edges of the buckets, +inf to the right
    counts: NDArray[np.float64]  # (W, H, E + 1) observations per bucket, and the sum of all values


def empty_state(
    trace: Trace,
    hardware: Hardware,
    edges: Sequence[Sequence[float]],
    *,
    ttft_seconds: float,
    after_prefill_seconds: float,
    prefill_model_error: float,
    seed: int,
) -> State:
    """No worker slots, nothing has arrived. `edges` per histogram of core.py, in order, each ending with +inf."""
    if len(edges) != core.HISTOGRAMS or not all(math.isinf(some[-1]) for some in edges):
        raise ValueError("one list of edges per histogram, each ending with +inf")
    n = len(trace)
    requests = np.zeros(n, _REQUEST)
    requests["arrival"], requests["prompt"], requests["output"] = trace.arrival, trace.prompt, trace.output
    requests["seconds"] = hardware.prefill_seconds(trace.prompt)
    requests["believed_seconds"] = requests["seconds"] * (1.0 + prefill_model_error)
    requests["transfer_seconds"] = hardware.transfer_seconds(trace.prompt)
    requests["due"] = trace.arrival + ttft_seconds - requests["transfer_seconds"] - after_prefill_seconds
    requests["worker"] = -1
    for moment in ("joined", "low_since", "admitted", "prefilled", "first", "finished"):
        requests[moment] = np.inf
    fleet = np.zeros(1, _FLEET)
    fleet["a"], fleet["b"], fleet["c"] = hardware.prefill
    fleet["d0"], fleet["d1"], fleet["d2"] = hardware.decode
    fleet["kv_tokens"], fleet["max_sequences"] = hardware.kv_tokens, hardware.max_sequences
    fleet["exporting"] = True
    fleet["count_from"], fleet["count_to"] = trace.warm_up_seconds, trace.duration_seconds
    # xorshift wants a state other than 0; consecutive seeds are spread by a multiplication (Knuth's constant).
    fleet["random"] = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64 or 1
    table = np.full((core.HISTOGRAMS, max(map(len, edges))), np.inf)
    for row, some in zip(table, edges, strict=True):
        row[: len(some)] = some
    return State(
        fleet=fleet,
        requests=requests,
        workers=np.zeros(0, _WORKER),
        queues=np.full((2, 3), (-1, -1, 0), np.int64),
        order=np.zeros((2, 0), np.int64),
        roster=np.zeros((2, 0), np.int64),
        batches=np.zeros((0, hardware.max_sequences, 2)),
        transfers=np.zeros((n, 2)),
        log=np.zeros((2, n), np.int64),
        edges=table,
        counts=np.zeros((0, core.HISTOGRAMS, table.shape[1] + 1)),
    )


def with_slots(state: State, more: int) -> State:
    """The same with so many more worker slots."""

    def longer(array: Any, by: int) -> Any:
        return np.concatenate([array, np.zeros((by, *array.shape[1:]), array.dtype)])

    workers, queues = longer(state.workers, more), longer(state.queues, 2 * more)
    workers["next_at"][-more:] = np.inf
    queues[-2 * more :, :2] = -1
    new = np.arange(len(state.workers), len(workers), dtype=np.int64)
    return state._replace(
        workers=workers,
        queues=queues,
        order=np.concatenate([state.order, [new, new]], axis=1),
        roster=np.concatenate([state.roster, [new, new]], axis=1),
        batches=longer(state.batches, more),
        counts=longer(state.counts, more),
    )
