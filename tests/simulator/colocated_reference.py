"""One worker of `simulator/colocated.py` in plain Python: slow, and simple to compare with vLLM's scheduler by eye."""

from dataclasses import dataclass

from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.simulator.hardware import Hardware


@dataclass
class Request:
    arrival: float
    prompt: int
    output: int
    made: int = 0
    computed: int = 0
    share: int = 0
    first: float = float("inf")
    finished: float = float("inf")

    @property
    def tokens(self) -> int:
        return self.prompt + self.made


class Engine:
    """`arrival` is when the scheduler sees a request."""

    def __init__(self, hardware: Hardware, chunking: Chunking) -> None:
        self.hardware, self.chunking = hardware, chunking
        self.running: list[Request] = []
        self.waiting: list[Request] = []

    @property
    def kv(self) -> int:
        return sum(r.computed + r.share for r in self.running)

    def schedule(self) -> float | None:
        """Seconds of the next step; None: nothing to do."""
        room, budget, pushed = self.hardware.kv_tokens, self.chunking.budget, False
        alone = len(self.running) + len(self.waiting) == 1
        cap = self.chunking.threshold if self.chunking.threshold and not alone else 10**9
        for request in list(self.running):
            if request not in self.running or budget == 0:
                continue
            wanted = min(request.tokens - request.computed, cap, budget)
            while request in self.running and self.kv + wanted > room:
                newest = self.running.pop()
                newest.computed, newest.share = 0, 0
                self.waiting.insert(0, newest)
                pushed = True
            if request in self.running:
                request.share = wanted
                budget -= wanted
        while budget and self.waiting and len(self.running) < self.hardware.max_sequences and not pushed:
            request = self.waiting[0]
            if request.prompt + request.output > room:
                self.waiting.pop(0)
                continue
            wanted = min(request.tokens, cap)
            if not self.chunking.enabled and wanted > budget:
                break
            wanted = min(wanted, budget)
            if self.kv + wanted > room:
                break
            self.running.append(self.waiting.pop(0))
            request.share = wanted
            budget -= wanted
        served = [r for r in self.running if r.share]
        return self._seconds(served) if served else None

    def _seconds(self, served: list[Request]) -> float:
        (d0, d1, d2), (_, b, c) = self.hardware.decode, self.hardware.prefill
        seconds = d0 + sum(d2 * r.computed for r in served)
        for r in served:
            seconds += (
                d1
                if r.made and r.share == 1
                else r.share * b + c * ((r.computed + r.share) ** 2 - r.computed**2)
            )
        return seconds

    def complete(self, now: float) -> None:
        for request in list(self.running):
            request.computed += request.share
            if request.share and request.computed == request.tokens:
                request.made += 1
                if request.made == 1:
                    request.first = now
            request.share = 0
            if request.made == request.output:
                request.finished = now
                self.running.remove(request)


def serve(requests: list[Request], hardware: Hardware, chunking: Chunking) -> None:
    """Until all have finished, or fit nowhere."""
    engine, coming, now = Engine(hardware, chunking), sorted(requests, key=lambda r: r.arrival), 0.0
    while coming or engine.running or engine.waiting:
        while coming and coming[0].arrival <= now:
            engine.waiting.append(coming.pop(0))
        seconds = engine.schedule()
        if seconds is None:
            if not coming:
                return
            now = coming[0].arrival
            continue
        now += seconds
        # Who comes in the very moment of a step's end is seen before the next one begins, as in the fleet.
        engine.complete(now)
