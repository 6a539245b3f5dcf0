"""The fleet as our own autoscaler sees it: a `Service` with its pods, and what a scrape of them would give.

A prefill worker's gate times from the arrival to the end of prefill, a decode worker's from there to the first token;
the rest is as vLLM counts it. Nothing of the hardware is told.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from tandem_api import names
from tandem_autoscaler.fleet.service import Pod, Pool, Service, Targets
from tandem_autoscaler.signals.layout import Histograms, layout
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tandem_autoscaler.simulator import core
from tandem_autoscaler.simulator.exported import SIGNALS
from tandem_autoscaler.simulator.fleet import Fleet

# The trace begins at this moment of the wall clock, so that no time is negative.
EPOCH_SECONDS = 1_000_000.0

# With late demotion the gate keeps the queue: the engine holds the prompt that it computes and so many more.
_WAITING_INSIDE = 1

_ROLES = {core.PREFILL: names.PREFILL, core.DECODE: names.DECODE}
_FIELDS = (
    "uid", "role", "phase", "created", "ready_at", "running", "kv", "transfers",
    "finished", "ended", "preemptions", "prompt_tokens", "prompt_tokens_computed", "output_tokens",
    "busy_seconds", "busy_until",
)  # fmt: skip


def service_of(fleet: Fleet) -> Service:
    """The service without its pods. Use `dataclasses.replace` for what a policy should be told otherwise."""
    settings = fleet.settings
    return Service(
        "default", "simulated", "simulated", 1, "Auto", False, True,
        Targets(settings.ttft_seconds, settings.tpot_seconds),
        _pools(fleet),
        late_demotion=settings.late_demotion,
        flips=settings.flips,
        router_policy=settings.router,
    )  # fmt: skip


def _pools(fleet: Fleet) -> dict[str, Pool]:
    hardware, most = fleet.hardware, fleet.settings.max_workers
    return {
        _ROLES[role]: Pool(_ROLES[role], target, 1, most, hardware.gpus, hardware.max_sequences)
        for role, target in zip((core.PREFILL, core.DECODE), fleet.targets, strict=True)
    }


class Readings:
    """Reads one fleet again and again. A pod whose phase and role have not changed is the same object.

    From now on the workers fill their histograms, should they not have done so before.
    """

    def __init__(self, fleet: Fleet, service: Service | None = None) -> None:
        self._fleet = fleet
        fleet.exporting = True
        self._service = service or service_of(fleet)
        self._pods: dict[tuple[int, int, int], Pod] = {}  # by number, phase and role
        table = fleet.state.edges
        edges = tuple(tuple(row[: np.argmax(np.isinf(row)) + 1].tolist()) for row in table)
        self._layout = layout((), SIGNALS, edges, False)
        # A layout wants all buckets, then all sums; the state has a padded row per histogram with the sum at its end.
        width = table.shape[1] + 1
        buckets = [number * width + at for number, some in enumerate(edges) for at in range(len(some))]
        self._columns = np.array([*buckets, *range(width - 1, width * len(edges), width)])

    def read(self) -> tuple[Service, Snapshot]:
        """The service with its present pods, and their readings. In an outage nobody answers."""
        state = self._fleet.state
        slots = np.flatnonzero(state.workers["phase"] != core.ABSENT)
        slots = slots[np.argsort(state.workers["uid"][slots])]
        columns = [state.workers[field][slots].tolist() for field in _FIELDS]
        main, low = state.queues[2 + 2 * slots, 2].tolist(), state.queues[3 + 2 * slots, 2].tolist()
        vectors = state.counts[slots].reshape(len(slots), -1)[:, self._columns]
        now = EPOCH_SECONDS + self._fleet.now_seconds
        pods: dict[tuple[int, int, int], Pod] = {}
        read: dict[str, PodReading] = {}
        for i, row in enumerate(zip(*columns, strict=True)):
            values = dict(zip(_FIELDS, row, strict=True))
            key = values["uid"], values["phase"], values["role"]
            pod = pods[key] = self._pods.get(key) or _pod(values)
            if pod.starting:
                continue
            waiting = main[i] + (low[i] if values["role"] == core.PREFILL else 0)
            histograms = Histograms((self._layout, vectors[i]))
            read[pod.uid] = self._reading(pod.uid, now, values, waiting, histograms)
        self._pods = pods
        targets = dict(zip(_ROLES.values(), self._fleet.targets, strict=True))
        pools = {r: replace(pool, replicas=targets[r]) for r, pool in self._service.pools.items()}
        service = replace(self._service, pools=pools, pods=tuple(pods.values()))
        if self._fleet.silent:
            return service, Snapshot(now, silent=dict.fromkeys(read, "did not answer"))
        return service, Snapshot(now, read)

    def _reading(
        self, uid: str, now: float, values: dict[str, Any], waiting: int, histograms: Histograms
    ) -> PodReading:
        prefill = values["role"] == core.PREFILL
        running = values["running"]
        held_back = prefill and self._fleet.settings.late_demotion
        counters = {
            "prompt_tokens_total": values["prompt_tokens"],
            "prompt_tokens_computed_total": values["prompt_tokens_computed"],
            "output_tokens_total": values["output_tokens"],
            "finished_total": float(values["finished"]),
            "preemptions_total": float(values["preemptions"]),
            "gate_requests_total": float(values["finished"] if prefill else values["ended"]),
        }
        if prefill:
            left = max(0.0, values["busy_until"] - self._fleet.now_seconds) if running else 0.0
            counters["gate_prefill_busy_seconds_total"] = values["busy_seconds"] - left
        gauges = {
            "running": float(running),
            "waiting": float(min(waiting, _WAITING_INSIDE) if held_back else waiting),
            "waiting_for_room": 0.0 if prefill else float(waiting),
            "kv_usage": min(1.0, values["kv"] / self._fleet.hardware.kv_tokens),
            "kv_tokens": float(values["kv"]),
            "gate_in_flight": float(running + waiting),
        }
        return PodReading(uid, now, counters, gauges, histograms)


def _pod(values: dict[str, Any]) -> Pod:
    uid = f"worker-{values['uid']}"
    ready = values["phase"] != core.STARTING
    return Pod(
        "default", uid, uid, None, _ROLES[values["role"]],
        ready=values["phase"] == core.READY,
        created_at_seconds=EPOCH_SECONDS + values["created"],
        ready_since_seconds=EPOCH_SECONDS + values["ready_at"] if ready else None,
        draining=values["phase"] == core.DRAINING,
    )  # fmt: skip
