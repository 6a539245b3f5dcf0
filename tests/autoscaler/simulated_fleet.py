"""A fleet that behaves like engines do, for closed-loop tests of the decision: no sockets, no sleeping.

Prefill workers share their time among the two oldest prompts they hold (chunked prefill with a threshold of half the
budget), the others wait; decode workers take d0 + d1 B per
token with B sequences. Both export vLLM's cumulative metrics. Time advances in steps of 20 ms.
"""

import math
import random
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tandem_api import names
from tandem_autoscaler.decide.decision import Outcome
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.service import Pod, Pool, Service, Targets
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading, Snapshot

STEP_SECONDS = 0.02
TTFT_EDGES = (0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, math.inf)
TPOT_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, math.inf)
TOKEN_EDGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, math.inf)


class Counted:
    """A histogram that grows."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.counts = [0.0] * len(edges)
        self.total = 0.0

    def observe(self, value: float, times: float = 1.0) -> None:
        self.counts[bisect_left(self.edges, value)] += times
        self.total += value * times

    def read(self) -> Histogram:
        return Histogram(self.edges, tuple(self.counts), self.total)


@dataclass
class Request:
    arrived: float
    prompt: float
    output: float
    work: float = 0.0
    made: float = 0.0
    at_decode: float = 0.0
    first: float | None = None


@dataclass
class Worker:
    pod: Pod
    ready_at: float
    held: list[Request] = field(default_factory=list)
    finished: float = 0.0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    ttft: Counted = field(default_factory=lambda: Counted(TTFT_EDGES))
    tpot: Counted = field(default_factory=lambda: Counted(TPOT_EDGES))
    gaps: Counted = field(default_factory=lambda: Counted(TPOT_EDGES))
    prompts: Counted = field(default_factory=lambda: Counted(TOKEN_EDGES))
    steps: Counted = field(default_factory=lambda: Counted(TOKEN_EDGES))
    outputs: Counted = field(default_factory=lambda: Counted(TOKEN_EDGES))

    def read(self, now: float) -> PodReading:
        counters = {
            "finished_total": self.finished,
            "prompt_tokens_total": self.prompt_tokens,
            "output_tokens_total": self.output_tokens,
            "preemptions_total": 0.0,
        }
        gauges = {
            "running": float(len(self.held)),
            "waiting": 0.0,
            "kv_usage": min(0.8, 0.01 * len(self.held)),
        }
        histograms = {
            "ttft": self.ttft.read(), "tpot": self.tpot.read(), "inter_token": self.gaps.read(),
            "prompt_tokens": self.prompts.read(), "output_tokens": self.outputs.read(),
            "step_tokens": self.steps.read(),
        }  # fmt: skip
        return PodReading(self.pod.uid, now, counters, gauges, histograms)


@dataclass(frozen=True)
class Hardware:
    """What the workers can do; nothing of it is told to the autoscaler."""

    prefill_base: float = 0.03
    prefill_per_token: float = 0.0004
    decode_base: float = 0.02
    decode_per_sequence: float = 0.012
    transfer: float = 0.05
    cold_start: float = 25.0


@dataclass(frozen=True)
class Traffic:
    """Poisson arrivals of fixed lengths."""

    per_second: float = 0.0
    prompt: float = 1000.0
    output: float = 20.0


class Fleet:
    """A disaggregated service under load with the autoscaler in the loop."""

    def __init__(
        self,
        traffic: Callable[[float], Traffic],
        *,
        hardware: Hardware | None = None,
        targets: Targets | None = None,
        prefill: int = 1,
        decode: int = 1,
        maximum: int = 6,
        tick_seconds: float = 5.0,
        confirm_seconds: float = 30.0,
        settings: Settings | None = None,
        seed: int = 1,
        schedulable: int | None = None,
    ) -> None:
        self.traffic, self.hardware = traffic, hardware or Hardware()
        self.settings = settings or Settings()
        self.tick_seconds, self.schedulable = tick_seconds, schedulable
        self.random = random.Random(seed)
        self.now = 1_000_000.0
        self.start = self.now
        self.targets = targets or Targets(1.0, 0.1)
        self.wanted = {names.PREFILL: prefill, names.DECODE: decode}
        self.maximum, self.confirm_seconds = maximum, confirm_seconds
        self.workers: dict[str, list[Worker]] = {names.PREFILL: [], names.DECODE: []}
        self.leaving: list[Worker] = []
        self.made = 0
        for role, count in self.wanted.items():
            for _ in range(count):
                self._add(role, ready_at=self.now - 300)
        self.state: ServiceState = fresh_state(self.service(), self.now, self.settings)
        self.outcome: Outcome = Outcome()
        self.log: list[tuple[float, str, int, int, str]] = []
        self.late = self.all = 0

    # --- the cluster's side -------------------------------------------------------------------------------
    def _add(self, role: str, *, ready_at: float) -> None:
        self.made += 1
        uid = f"w{self.made}"
        pod = Pod("default", uid, uid, "10.0.0.1", role, False, min(self.now, ready_at))
        self.workers[role].append(Worker(pod, ready_at))

    def _pod(self, worker: Worker) -> Pod:
        ready = worker.ready_at <= self.now
        stuck = math.isinf(worker.ready_at)
        return replace(
            worker.pod, ready=ready, ready_since_seconds=worker.ready_at if ready else None, stuck=stuck,
            draining=worker in self.leaving,
        )  # fmt: skip

    def service(self) -> Service:
        pods = tuple(self._pod(w) for role in self.workers.values() for w in role)
        pods += tuple(self._pod(w) for w in self.leaving)
        pools = {role: Pool(role, count, 1, self.maximum) for role, count in self.wanted.items()}
        return Service(
            "default", "chat", "uid", 1, "Auto", False, True, self.targets, pools, pods,
            confirm_seconds=self.confirm_seconds,
        )  # fmt: skip

    def _reconcile(self) -> None:
        for role, workers in self.workers.items():
            while len(workers) < self.wanted[role]:
                free = self.schedulable is None or self._running() < self.schedulable
                self._add(role, ready_at=self.now + self.hardware.cold_start if free else math.inf)
            while len(workers) > self.wanted[role]:
                victim = min(reversed(workers), key=lambda w: (w.ready_at <= self.now, len(w.held)))
                workers.remove(victim)
                if victim.ready_at <= self.now:
                    self.leaving.append(victim)
        self.leaving = [w for w in self.leaving if w.held]

    def _running(self) -> int:
        return sum(not math.isinf(w.ready_at) for ws in self.workers.values() for w in ws)

    # --- the engines' side --------------------------------------------------------------------------------
    def _serving(self, role: str) -> list[Worker]:
        return [w for w in self.workers[role] if w.ready_at <= self.now]

    def _step(self) -> None:
        traffic = self.traffic(self.now - self.start)
        if traffic.per_second and self.random.random() < traffic.per_second * STEP_SECONDS:
            chosen = min(self._serving(names.PREFILL), key=lambda w: len(w.held), default=None)
            if chosen is not None:
                chosen.held.append(Request(self.now, traffic.prompt, traffic.output))
        everyone = [*self.leaving]
        for worker in [*self._serving(names.PREFILL), *(w for w in everyone if w.pod.role == names.PREFILL)]:
            self._prefill(worker)
        for worker in [*self._serving(names.DECODE), *(w for w in everyone if w.pod.role == names.DECODE)]:
            self._decode(worker)
        self.now += STEP_SECONDS

    def _prefill(self, worker: Worker) -> None:
        served = worker.held[:2]
        for request in served:
            request.work += STEP_SECONDS / len(served)
            if request.work >= self.hardware.prefill_base + self.hardware.prefill_per_token * request.prompt:
                worker.held.remove(request)
                worker.finished += 1
                worker.prompt_tokens += request.prompt
                worker.prompts.observe(request.prompt)
                worker.ttft.observe(self.now - request.arrived)
                request.at_decode = self.now
                chosen = min(self._serving(names.DECODE), key=lambda w: len(w.held), default=None)
                if chosen is not None:
                    chosen.held.append(request)

    def _decode(self, worker: Worker) -> None:
        active = [r for r in worker.held if self.now - r.at_decode >= self.hardware.transfer]
        if not active:
            return
        each = self.hardware.decode_base + self.hardware.decode_per_sequence * len(active)
        worker.steps.observe(len(active), STEP_SECONDS / each)
        for request in active:
            if request.first is None:
                request.first = self.now
                worker.ttft.observe(self.now - request.at_decode)
                self.all += 1
                self.late += self.now - request.arrived > self.targets.ttft_seconds
            request.made += STEP_SECONDS / each
            worker.output_tokens += STEP_SECONDS / each
            worker.gaps.observe(each, STEP_SECONDS / each)
            if request.made >= request.output:
                worker.held.remove(request)
                worker.finished += 1
                worker.outputs.observe(request.output)
                worker.tpot.observe((self.now - request.first) / max(request.output - 1, 1))

    # --- the loop -----------------------------------------------------------------------------------------
    def snapshot(self) -> Snapshot:
        workers = [w for ws in self.workers.values() for w in ws if w.ready_at <= self.now] + self.leaving
        return Snapshot(self.now, {w.pod.uid: w.read(self.now) for w in workers})

    def tick(self) -> Outcome:
        self.state, self.outcome = decide(self.state, self.service(), self.snapshot(), self.settings)
        for role, decision in self.outcome.decisions.items():
            if decision.changes:
                self.log.append(
                    (self.now - self.start, role, decision.current, decision.target, decision.message)
                )
            self.wanted[role] = decision.target
        self._reconcile()
        return self.outcome

    def run(self, seconds: float) -> "Fleet":
        end = self.now + seconds
        next_tick = self.now
        while self.now < end:
            if self.now >= next_tick:
                self.tick()
                next_tick += self.tick_seconds
            self._step()
        return self

    def moves(self, role: str) -> list[tuple[float, int, int]]:
        return [(round(at), before, after) for at, who, before, after, _ in self.log if who == role]
