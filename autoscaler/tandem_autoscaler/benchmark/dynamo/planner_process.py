"""NVIDIA Dynamo's planner behind JSON lines. Runs in its own environment: only theirs, numpy and the standard library.

The decision code is theirs and untouched (`OrchestratorEngineAdapter` with its built-in plugins, on their
`VirtualClock`). What a cluster would give it, metrics and worker counts, comes in on stdin; what it would tell the
cluster goes out on stdout. One object per line, one answer per question, until stdin ends:

  in   {"profile": FOLDER, "config": {PlannerConfig fields}, "prefill": {EngineCapabilities fields}, "decode": {...}}
  out  {"next": NEXT}
  in   {"now": SECONDS,
        "traffic": null | {TrafficObservation fields},
        "workers": {WorkerCounts fields},
        "prefill": [[running, prompt tokens of those, iteration seconds, queued, prompt tokens of those], ...],
        "decode": [[running, KV tokens of those, iteration seconds, queued, KV tokens of those], ...]}
  out  {"prefill": N | null, "decode": N | null, "next": NEXT, "diagnostics": {TickDiagnostics fields that are set}}

FOLDER holds a sweep in their `raw_data.npz` format, from which the performance models start. `prefill` and `decode`
have one entry per ready worker. A null target means: leave it. NEXT says when to ask again and for what:
{"at": SECONDS, "traffic": "full" | "hit rate" | null, "traffic_seconds": SECONDS}.
The first kind of question may come again: it begins another run, with a planner that knows nothing of the one before
(their imports take longer than most runs). A question that cannot be answered gives {"error": SENTENCE}.
Their log goes to stderr.
"""

import asyncio
import dataclasses
import json
import os
import signal
import sys
from typing import Any

# All read when modules load. They log every tick at info; and several threads on the ten numbers that its ARIMA fits
# are thirty times slower than one.
os.environ |= {"DYN_LOG": "error", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

from dynamo.common.forward_pass_metrics import (  # type: ignore[import-not-found]
    ForwardPassMetrics,
    QueuedRequestMetrics,
    ScheduledRequestMetrics,
)
from dynamo.planner.config.defaults import SubComponentType  # type: ignore[import-not-found]
from dynamo.planner.config.planner_config import PlannerConfig  # type: ignore[import-not-found]
from dynamo.planner.core.types import (  # type: ignore[import-not-found]
    EngineCapabilities,
    FpmObservations,
    ScheduledTick,
    TickInput,
    TrafficObservation,
    WorkerCapabilities,
    WorkerCounts,
)
from dynamo.planner.monitoring.perf_metrics import (  # type: ignore[import-not-found]
    _convert_profiling_data_to_fpms,
)
from dynamo.planner.plugins.clock import VirtualClock  # type: ignore[import-not-found]
from dynamo.planner.plugins.orchestrator.engine_adapter import (  # type: ignore[import-not-found]
    OrchestratorEngineAdapter,
)


class Planner:
    def __init__(self, question: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._engine = OrchestratorEngineAdapter(
            PlannerConfig(**question["config"]),
            WorkerCapabilities(
                prefill=EngineCapabilities(**question["prefill"]),
                decode=EngineCapabilities(**question["decode"]),
            ),
            clock=VirtualClock(),
        )
        sweep = {
            "prefill_fpms": _convert_profiling_data_to_fpms(question["profile"], SubComponentType.PREFILL),
            "decode_fpms": _convert_profiling_data_to_fpms(question["profile"], SubComponentType.DECODE),
        }
        self._loop.run_until_complete(self._engine.bootstrap_from_fpms(**sweep))
        self._tick = self._engine.initial_tick(0.0)

    def wishes(self) -> dict[str, Any]:
        tick: ScheduledTick = self._tick
        kind = (
            ("full" if tick.use_full_traffic_metrics else "hit rate") if tick.need_traffic_metrics else None
        )
        return {"at": tick.at_s, "traffic": kind, "traffic_seconds": tick.traffic_metrics_duration_s}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        tick: ScheduledTick = self._tick
        traffic = question["traffic"] if tick.need_traffic_metrics else None
        passes = FpmObservations(
            prefill=_passes(question["prefill"], _prefill_pass),
            decode=_passes(question["decode"], _decode_pass),
        )
        effects = self._loop.run_until_complete(
            self._engine.tick(
                tick,
                TickInput(
                    now_s=max(tick.at_s, question["now"]),
                    traffic=TrafficObservation(**traffic) if traffic is not None else None,
                    worker_counts=WorkerCounts(**question["workers"]) if tick.need_worker_states else None,
                    fpm_observations=passes if tick.need_worker_fpm else None,
                ),
            )
        )
        self._tick = effects.next_tick
        scale = effects.scale_to
        return {
            "prefill": scale.num_prefill if scale is not None else None,
            "decode": scale.num_decode if scale is not None else None,
            "next": self.wishes(),
            "diagnostics": {
                k: v
                for k, v in dataclasses.asdict(effects.diagnostics).items()
                if v not in (None, [], {}, "")
            },
        }

    def close(self) -> None:
        self._loop.run_until_complete(self._engine.shutdown())
        self._loop.close()


def _passes(workers: list[list[float]], build: Any) -> dict[tuple[str, int], ForwardPassMetrics]:
    return {(str(i), 0): build(str(i), *worker) for i, worker in enumerate(workers)}


def _prefill_pass(
    worker: str, running: float, tokens: float, seconds: float, queued: float, queued_tokens: float
) -> ForwardPassMetrics:
    return ForwardPassMetrics(
        worker_id=worker,
        wall_time=seconds,
        scheduled_requests=ScheduledRequestMetrics(
            num_prefill_requests=round(running), sum_prefill_tokens=round(tokens)
        ),
        queued_requests=QueuedRequestMetrics(
            num_prefill_requests=round(queued), sum_prefill_tokens=round(queued_tokens)
        ),
    )


def _decode_pass(
    worker: str, running: float, tokens: float, seconds: float, queued: float, queued_tokens: float
) -> ForwardPassMetrics:
    return ForwardPassMetrics(
        worker_id=worker,
        wall_time=seconds,
        scheduled_requests=ScheduledRequestMetrics(
            num_decode_requests=round(running), sum_decode_kv_tokens=round(tokens)
        ),
        queued_requests=QueuedRequestMetrics(
            num_decode_requests=round(queued), sum_decode_kv_tokens=round(queued_tokens)
        ),
    )


def main() -> None:
    # Ctrl-C in a terminal reaches this process too; whoever started it ends its stdin then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what their libraries print must not get between the lines
    planner: Planner | None = None
    for line in sys.stdin:
        try:
            question = json.loads(line)
            if "config" in question:
                if planner is not None:
                    planner.close()
                planner = Planner(question)
                reply: dict[str, Any] = {"next": planner.wishes()}
            elif planner is not None:
                reply = planner.answer(question)
            else:
                reply = {"error": "the first question has to bring the configuration"}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
    os._exit(0)  # nothing is left to save, and to unload all their libraries takes seconds


if __name__ == "__main__":
    main()
