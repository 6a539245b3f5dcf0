"""The same fleet in plain Python, one prompt and one decode iteration at a time: slow, and simple to check by eye.

It knows least work and round robin as routers, fixed cold starts, and targets that change at given moments.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from tandem_autoscaler.simulator.hardware import Hardware


@dataclass
class Request:
    arrival: float
    prompt: int
    output: int
    made: int = 0
    ready_for_decode: float = math.inf
    first: float = math.inf
    finished: float = math.inf

    @property
    def context(self) -> int:
        return self.prompt + self.made


@dataclass
class PrefillWorker:
    ready_at: float
    hardware: Hardware
    queue: list[Request] = field(default_factory=list)
    current: Request | None = None
    busy_until: float = math.inf
    moving: int = 0
    draining: bool = False

    def load(self, now: float) -> float:
        rest = self.busy_until - now if self.current else 0.0
        return rest + sum(self.hardware.prefill_seconds(r.prompt) for r in self.queue)

    def held(self) -> int:
        return len(self.queue) + (self.current is not None)


@dataclass
class DecodeWorker:
    ready_at: float
    hardware: Hardware
    queue: list[Request] = field(default_factory=list)
    batch: list[Request] = field(default_factory=list)  # in the order of admission
    busy_until: float = math.inf
    draining: bool = False
    preemptions: int = 0

    def load(self, now: float) -> float:
        return sum(r.context for r in self.batch) + sum(r.context for r in self.queue)

    def held(self) -> int:
        return len(self.queue) + len(self.batch)

    def begin_iteration(self, now: float) -> None:
        cap = self.hardware.kv_tokens
        preempted = False
        while self.batch and sum(r.context for r in self.batch) + len(self.batch) > cap:
            self.queue.insert(0, self.batch.pop())
            self.preemptions += 1
            preempted = True
        recompute = 0.0
        while (
            (not preempted or not self.batch) and self.queue and len(self.batch) < self.hardware.max_sequences
        ):
            request = self.queue[0]
            if sum(r.context for r in self.batch) + request.context > 0.98 * cap:
                if self.batch:
                    break
                self.queue.pop(0)  # fits nowhere: it has failed
                continue
            self.batch.append(self.queue.pop(0))
            preempted = False
            if request.made:
                recompute += self.hardware.prefill_seconds(float(request.context))
        if not self.batch:
            self.busy_until = math.inf
            return
        tokens = sum(r.context for r in self.batch)
        self.busy_until = (
            now + recompute + self.hardware.iteration_seconds(float(len(self.batch)), float(tokens))
        )

    def end_iteration(self, now: float) -> None:
        for request in self.batch:
            request.made += 1
            if request.made == 1:
                request.first = now
            if request.made == request.output:
                request.finished = now
        self.batch = [r for r in self.batch if r.made < r.output]


class Reference:
    """Steps to the next thing that happens, looking at every worker each time."""

    def __init__(
        self, requests: list[Request], hardware: Hardware, prefill: int, decode: int, *, cold_start: float,
        round_robin: bool = False, targets: tuple[tuple[float, int, int], ...] = (),
    ) -> None:  # fmt: skip
        self.hardware, self.cold_start, self.round_robin = hardware, cold_start, round_robin
        self.coming = sorted(requests, key=lambda r: r.arrival)
        self.targets = list(targets)
        self.p = [PrefillWorker(0.0, hardware) for _ in range(prefill)]
        self.d = [DecodeWorker(0.0, hardware) for _ in range(decode)]
        self.moving: list[tuple[float, Request, PrefillWorker]] = []
        self.unrouted: list[Request] = []
        self.turns = {"p": 0, "d": 0}
        self.now = 0.0

    def _choose(self, workers: list[Any], which: str) -> Any:
        able = [w for w in workers if w.ready_at <= self.now and not w.draining]
        if not able:
            return None
        if self.round_robin:
            if len(able) > 1:
                self.turns[which] += 1
            return able[self.turns[which] % len(able)]
        return min(able, key=lambda w: w.load(self.now))

    def _serve(self, worker: PrefillWorker) -> None:
        worker.current, worker.busy_until = None, math.inf
        if worker.queue:
            worker.current = worker.queue.pop(0)
            worker.busy_until = self.now + self.hardware.prefill_seconds(float(worker.current.prompt))

    def _arrive(self, request: Request) -> None:
        worker = self._choose(self.p, "p")
        if worker is None:
            self.unrouted.append(request)
            return
        worker.queue.append(request)
        if worker.current is None:
            self._serve(worker)

    def _resize(self, workers: list[Any], target: int, make: type) -> None:
        alive = [w for w in workers if not w.draining]
        for _ in range(target - len(alive)):
            workers.append(make(self.now + self.cold_start, self.hardware))
        for _ in range(len(alive) - target):
            starting = [w for w in workers if w.ready_at > self.now]
            if starting:
                workers.remove(starting[-1])
                continue
            ready = [w for w in workers if not w.draining]
            least = min(w.held() for w in ready)
            victim = [w for w in ready if w.held() == least][-1]  # the newest of them
            victim.draining = True

    def run(self, until: float) -> "Reference":
        while True:
            everyone: list[Any] = [*self.p, *self.d]
            moments = [w.busy_until for w in everyone]
            moments += [w.ready_at for w in everyone if w.ready_at > self.now]
            moments += [at for at, _, _ in self.moving]
            moments += [self.coming[0].arrival] if self.coming else []
            moments += [self.targets[0][0]] if self.targets else []
            self.now = min(moments, default=math.inf)
            if self.now > until:
                return self
            for w in [w for w in self.p if w.busy_until <= self.now]:
                assert w.current is not None
                at = self.now + self.hardware.transfer_seconds(float(w.current.prompt))
                self.moving.append((at, w.current, w))
                w.moving += 1
                self._serve(w)
            for decoder in [d for d in self.d if d.busy_until <= self.now]:
                decoder.end_iteration(self.now)
                decoder.begin_iteration(self.now)
            for entry in sorted((m for m in self.moving if m[0] <= self.now), key=lambda m: m[0]):
                self.moving.remove(entry)
                entry[2].moving -= 1
                chosen = self._choose(self.d, "d")
                assert chosen is not None, "the cases keep a decode worker ready"
                chosen.queue.append(entry[1])
                if not chosen.batch:
                    chosen.begin_iteration(self.now)
            while self.coming and self.coming[0].arrival <= self.now:
                self._arrive(self.coming.pop(0))
            if self.unrouted and any(w.ready_at <= self.now and not w.draining for w in self.p):
                waiting, self.unrouted = self.unrouted, []
                for request in waiting:
                    self._arrive(request)
            while self.targets and self.targets[0][0] <= self.now:
                _, prefill, decode = self.targets.pop(0)
                self._resize(self.p, prefill, PrefillWorker)
                self._resize(self.d, decode, DecodeWorker)
            self.p = [w for w in self.p if not (w.draining and not w.held() and not w.moving)]
            self.d = [w for w in self.d if not (w.draining and not w.held())]
