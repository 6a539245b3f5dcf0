"""NVIDIA Dynamo's own planner (ai-dynamo 1.6.1) sizing the simulated fleet.

The decisions are made by their code in a process of its own; this module is what their Prometheus client, metrics
subscriber and Kubernetes connector are to it: it says what the fleet is like, in their units and by their conventions.

Where there was a choice it was made in the planner's favour:
* `optimization_target="sla"`, with our targets. The default target uses fixed queue and KV thresholds.
* No GPU budget and no limit on the step of one decision (defaults: 8 GPUs, 8 replicas).
* The models start from a complete sweep of exactly this hardware and see every ready worker at every tick.
* The prefill engine is described as it is, one prompt at a time and never in chunks, which makes their capacity
  1 / S(mean prompt) exactly. (Told of batching, it would count on speed that this engine does not have.)
* A prefill record shows the queue of this moment, not of the last finished pass, and sequences that wait for room in
  decode count as queued decode, so that its load rule sees them.
Demand is what their frontend counts: requests started in the window, hence also those in an overload.
"""

import tempfile
from collections import deque
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.dynamo_process import PlannerProcess
from tandem_autoscaler.simulator.policies.dynamo_profile import write_sweep
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.view import FleetView

Mode = Literal["throughput", "load", "both"]
Predictor = Literal["constant", "arima", "kalman", "prophet"]

_LOAD_INTERVAL_SECONDS = 5  # theirs; it also paces what the models learn in throughput mode
_UNLIMITED_REPLICAS = 1_000_000


class DynamoPolicy:
    """One run of the planner. Policies may share its process one after the other, not at the same time."""

    name = "dynamo"
    tick_seconds = float(_LOAD_INTERVAL_SECONDS)

    def __init__(
        self,
        planner: PlannerProcess,
        *,
        hardware: Hardware,
        ttft_seconds: float,
        tpot_seconds: float,
        mode: Mode = "both",
        interval_seconds: int = 180,
        predictor: Predictor = "constant",
        context_tokens: int = 16_384,
    ) -> None:
        """`hardware`: what its sweep was made on; the times that it observes are those of the fleet's own.
        `interval_seconds`: between two decisions of the throughput rule. `context_tokens`: the longest context that
        the engine serves.
        """
        self._planner = planner
        self._hardware = hardware
        self._ttft_seconds, self._tpot_seconds = ttft_seconds, tpot_seconds
        self._mode, self._interval_seconds, self._predictor = mode, interval_seconds, predictor
        self._context_tokens = context_tokens
        self._run: int | None = None
        self._next: dict[str, Any] = {}
        self._finished: deque[tuple[float, int, float]] = deque()  # seconds, requests, output tokens
        self.diagnostics: dict[str, Any] = {}  # theirs, of the last tick

    @property
    def setting(self) -> str:
        """Which of its ways of running this is, in words for a table."""
        if self._mode == "load":
            return "load rule"
        rules = "both rules" if self._mode == "both" else "throughput rule"
        return f"{rules}, every {self._interval_seconds} s, {self._predictor}"

    def step(self, fleet: Fleet) -> Targets:
        """Asks when the planner wants to be asked. Raises PlannerFailed."""
        view = fleet.view()
        self._remember(view)
        run = self._run or self._begin()
        if view.now_seconds < self._next["at"] - 1e-6:
            return Targets()
        answer = self._planner.ask(
            run,
            {
                "now": view.now_seconds,
                "traffic": self._traffic(view),
                "workers": _worker_counts(view),
                "prefill": self._prefill_passes(view, fleet.hardware),
                "decode": _decode_passes(view, fleet.hardware),
            },
        )
        self._next, self.diagnostics = answer["next"], answer["diagnostics"]
        return Targets(prefill=answer["prefill"], decode=answer["decode"])

    def _begin(self) -> int:
        engine = {
            "num_gpu": self._hardware.gpus,
            "max_num_batched_tokens": self._context_tokens,
            "context_length": self._context_tokens,
            "max_kv_tokens": self._hardware.kv_tokens,
        }
        with tempfile.TemporaryDirectory() as folder:
            write_sweep(Path(folder), self._hardware, self._context_tokens)
            self._run, answer = self._planner.begin(
                {
                    "profile": folder,
                    "config": self._config(folder),
                    "prefill": {**engine, "max_num_seqs": 1},
                    "decode": {**engine, "max_num_seqs": self._hardware.max_sequences},
                }
            )
        self._next = answer["next"]
        return self._run

    def _config(self, profile: str) -> dict[str, Any]:
        """Fields of their PlannerConfig; what is not here has their default."""
        return {
            "mode": "disagg",
            "optimization_target": "sla",
            "ttft_ms": 1e3 * self._ttft_seconds,
            "itl_ms": 1e3 * self._tpot_seconds,
            "enable_throughput_scaling": self._mode != "load",
            "enable_load_scaling": self._mode != "throughput",
            "throughput_adjustment_interval_seconds": self._interval_seconds,
            "load_adjustment_interval_seconds": _LOAD_INTERVAL_SECONDS,
            "load_predictor": self._predictor,
            "max_gpu_budget": -1,
            "max_throughput_scaling_replicas": _UNLIMITED_REPLICAS,
            "pre_deployment_sweeping_mode": "thorough",
            "profile_results_dir": profile,
            # Its reports, dashboard and control port belong to a deployment.
            "report_interval_hours": None,
            "live_dashboard_port": 0,
            "control_api_port": 0,
        }

    def _remember(self, view: FleetView) -> None:
        self._finished.append(
            (view.now_seconds, len(view.new_finished_output), float(view.new_finished_output.sum()))
        )
        while self._finished[0][0] <= view.now_seconds - self._interval_seconds:
            self._finished.popleft()

    def _traffic(self, view: FleetView) -> dict[str, float] | None:
        """Their `prometheus_traffic_provider`: means of a window without a request are 0, of one without a finished
        request unknown, and then there is no observation at all.
        """
        wanted, duration = self._next["traffic"], self._next["traffic_seconds"]
        if wanted is None:
            return None
        observation = {"duration_s": duration, "num_req": 0.0, "isl": 0.0, "osl": 0.0, "kv_hit_rate": 0.0}
        if wanted == "hit rate":
            return observation
        prompts = view.prompt[np.searchsorted(view.arrival, view.now_seconds - duration, side="right") :]
        if len(prompts):
            requests = sum(n for _, n, _ in self._finished)
            if not requests:
                return None
            output = sum(tokens for _, _, tokens in self._finished)
            observation.update(num_req=float(len(prompts)), isl=float(prompts.mean()), osl=output / requests)
        return observation

    def _prefill_passes(self, view: FleetView, hardware: Hardware) -> list[list[float]]:
        """Which prompt a worker has in hand the view does not tell: the mean of the last arrivals, with its time."""
        role = view.prefill
        lately = view.prompt[np.searchsorted(view.arrival, view.now_seconds - self.tick_seconds) :]
        prompts = lately if len(lately) else view.prompt[-1:]
        tokens = float(prompts.mean()) if len(prompts) else 0.0
        seconds = hardware.prefill_seconds(tokens)
        return [
            [1, tokens, seconds, n, queued] if busy else [0, 0, 0.0, n, queued]
            for busy, n, queued in zip(
                role.running.tolist(), role.waiting.tolist(), role.waiting_tokens.tolist(), strict=True
            )
        ]


def _decode_passes(view: FleetView, hardware: Hardware) -> list[list[float]]:
    role, passes = view.decode, []
    for batch, n, queued, usage in zip(
        role.running.tolist(),
        role.waiting.tolist(),
        role.waiting_tokens.tolist(),
        role.kv_usage.tolist(),
        strict=True,
    ):
        tokens = usage * hardware.kv_tokens
        passes.append([batch, tokens, hardware.iteration_seconds(batch, tokens) if batch else 0.0, n, queued])
    return passes


def _worker_counts(view: FleetView) -> dict[str, Any]:
    """Their Kubernetes connector (`_get_worker_inventory_sync`): the expected counts are known only at rest, and
    starting workers are vouched for only while none is terminating.
    """
    prefill, decode = view.prefill, view.decode
    draining = bool(prefill.draining or decode.draining)
    at_rest = not (prefill.starting or decode.starting or draining)
    return {
        "ready_num_prefill": prefill.ready,
        "ready_num_decode": decode.ready,
        "expected_num_prefill": prefill.ready if at_rest else None,
        "expected_num_decode": decode.ready if at_rest else None,
        "prefill_scaling_in_progress": not at_rest,
        "decode_scaling_in_progress": not at_rest,
        "pending_num_prefill": 0 if draining else prefill.starting,
        "pending_num_decode": 0 if draining else decode.starting,
    }
