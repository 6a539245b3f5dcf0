"""A colocated pool in the simulator, and what `decide` makes of what its engines export."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tandem_api import names
from tandem_autoscaler.decide.decision import Decision
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.service import Pod, Pool, Service, Targets
from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tandem_autoscaler.simulator.colocated import serve
from tests.autoscaler.chunk_grid import Kind

TICK_SECONDS = 5.0
BEGAN = 1_000_000.0
EDGES = {
    "ttft": tuple(0.01 * 1.5**i for i in range(18)),
    "tpot": tuple(0.002 * 1.25**i for i in range(24)),
    "inter_token": tuple(0.002 * 1.25**i for i in range(24)),
    "prompt_tokens": tuple(16.0 * 1.5**i for i in range(19)),
    "output_tokens": tuple(2.0 * 1.7**i for i in range(16)),
    "step_tokens": tuple(2.0**i for i in range(15)),
}
# The gate's are the same, under its own names.
GATES = {"gate_ttft": "ttft", "gate_tpot": "tpot", "gate_prompt_tokens": "prompt_tokens"}


class ColocatedPool:
    """`workers` of one kind that serve `seconds` of its traffic; `gate` False is a stock engine."""

    def __init__(
        self, kind: Kind, chunking: Chunking, *, rate: float, workers: int, seconds: float = 400.0, gate: bool = True
    ) -> None:  # fmt: skip
        self.kind, self.chunking, self.workers, self.gate = kind, chunking, workers, gate
        self.ticks = int(seconds / TICK_SECONDS)
        # Its last requests come after what is looked at.
        self.trace = kind.trace(rate, 3, int(rate * (seconds + 60.0)))
        self.served = serve(self.trace, [kind.hardware] * workers, chunking)
        self.first = self.trace.arrival + self.served.ttft
        self.of = [np.flatnonzero(self.served.worker == worker) for worker in range(workers)]

    def late(self) -> float:
        """The larger of both shares of late requests, without the first tenth."""
        warm, promise = len(self.first) // 10, self.kind.promise
        first = np.mean(self.served.ttft[warm:] > promise.ttft_seconds)
        return float(max(first, np.mean(self.served.tpot[warm:] > promise.tpot_seconds)))

    def decided(self, **service: object) -> tuple[ServiceState, Decision]:
        """After all of it, without having changed anything."""
        settings, promise = Settings(), self.kind.promise
        pods = tuple(
            Pod("n", f"w{i}", f"w{i}", "10.0.0.1", names.WORKERS, True, BEGAN - 1000, BEGAN - 900)
            for i in range(self.workers)
        )
        pool = Pool(names.WORKERS, self.workers, 1, 100, chunking=self.chunking)
        asked = Service(
            "n", "chat", "u", 1, "Auto", False, False, Targets(promise.ttft_seconds, promise.tpot_seconds),
            {names.WORKERS: pool}, pods, **{"headroom": 0.0, **service},  # type: ignore[arg-type]
        )  # fmt: skip
        state = fresh_state(asked, BEGAN, settings)
        for snapshot in self._snapshots():
            state, outcome = decide(state, asked, snapshot, settings)
        return state, outcome.decisions[names.WORKERS]

    def _snapshots(self) -> Iterator[Snapshot]:
        exporting = [_Exporting(self, worker) for worker in range(self.workers)]
        for tick in range(self.ticks):
            until = (tick + 1) * TICK_SECONDS
            yield Snapshot(
                BEGAN + until, {f"w{i}": one.reading(until) for i, one in enumerate(exporting)}, {}
            )


class _Exporting:
    """One worker's counters and histograms."""

    def __init__(self, pool: ColocatedPool, worker: int) -> None:
        self.pool, self.worker = pool, worker
        self.counts = {name: np.zeros(len(edges) + 1) for name, edges in EDGES.items()}
        self.sums = dict.fromkeys(EDGES, 0.0)
        self.prompts = self.tokens = self.finished = self.busy = 0.0

    def reading(self, until: float) -> PodReading:
        """The next tick's."""
        pool, since = self.pool, until - TICK_SECONDS
        served, mine = pool.served, pool.of[self.worker]
        arrival, first, finished = pool.trace.arrival[mine], pool.first[mine], served.finished[mine]
        prompt, output, tpot = pool.trace.prompt[mine], pool.trace.output[mine], served.tpot[mine]
        begun = (first > since) & (first <= until)
        done = (finished > since) & (finished <= until)
        open_now = (first <= until) & (finished > until)
        decoding = (first < until) & (finished > since) & (output > 1)
        # An answer's tokens come evenly between its first and its last.
        there = np.minimum(finished[decoding], until) - np.maximum(first[decoding], since)
        tokens = there / tpot[decoding]
        self._observe("ttft", served.ttft[mine][begun])
        self._observe("prompt_tokens", prompt[begun].astype(float))
        self._observe("tpot", tpot[done & (output > 1)])
        self._observe("output_tokens", output[done].astype(float))
        self._observe("inter_token", tpot[decoding], tokens)
        steps = float(served.stepped[self.worker, int(since) : int(until)].sum())
        if steps:
            self._observe("step_tokens", np.array([tokens.sum() / steps]), np.array([steps]))
        self.prompts += float(prompt[begun].sum())
        self.tokens += float(tokens.sum() + begun.sum())
        self.finished += float(done.sum())
        self.busy += _covered(arrival, first, since, until)
        counters = {
            "prompt_tokens_total": self.prompts, "prompt_tokens_computed_total": self.prompts,
            "output_tokens_total": self.tokens, "finished_total": self.finished, "preemptions_total": 0.0,
            "prompt_tokens_received_total": 0.0,
        }  # fmt: skip
        gauges = {
            "running": float(((arrival <= until) & (finished > until)).sum()), "waiting": 0.0,
            "kv_usage": float(prompt[open_now].sum()) / pool.kind.hardware.kv_tokens,
        }  # fmt: skip
        histograms = {
            name: Histogram((*edges, math.inf), tuple(self.counts[name]), self.sums[name])
            for name, edges in EDGES.items()
        }
        if pool.gate:
            counters |= {
                "gate_requests_total": float((arrival <= until).sum()),
                "gate_prefill_busy_seconds_total": self.busy,
            }
            gauges["gate_in_flight"] = gauges["running"]
            histograms |= {gates: histograms[name] for gates, name in GATES.items()}
        return PodReading(f"w{self.worker}", BEGAN + until, counters, gauges, histograms)

    def _observe(
        self, name: str, values: NDArray[np.float64], times: NDArray[np.float64] | None = None
    ) -> None:
        times = np.ones(len(values)) if times is None else times
        np.add.at(self.counts[name], np.searchsorted(EDGES[name], values), times)
        self.sums[name] += float((values * times).sum())


def _covered(begins: NDArray[np.float64], ends: NDArray[np.float64], since: float, until: float) -> float:
    """Seconds of the interval in which at least one of these was under way."""
    total, reached = 0.0, since
    for begin, end in sorted(zip(begins.tolist(), ends.tolist(), strict=True)):
        begin, end = max(begin, reached), min(end, until)
        if end > begin:
            total += end - begin
            reached = end
    return total
