"""The chunk tuner against simulation, on traffic of several kinds.

    python -m tests.autoscaler.chunk_grid      a table: the tuner's pick, vLLM's default and the best of the grid

In each row the simulator (vLLM's scheduler, step by step) finds the most requests per second that one worker serves
with 95 % in time, for every setting of the grid; the tuner knows only lengths, targets and the step's coefficients.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tandem_autoscaler.diagnose.chunking import Grid, Tuned, tune
from tandem_autoscaler.model.colocated import Promise, Traffic, Worker, capacity
from tandem_autoscaler.model.mixed_step import Chunking, MixedStep
from tandem_autoscaler.model.prompt_lengths import Lengths
from tandem_autoscaler.simulator.catalogue import hardware
from tandem_autoscaler.simulator.colocated import Served, serve
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.trace import Trace

DEFAULT = Chunking(8192)  # vLLM's on an H100


def log_normal(mean: float, cv: float, parts: int = 9) -> Lengths:
    """In equal parts."""
    variance = math.log(1 + cv * cv)
    scores = [NormalDist().inv_cdf((part + 0.5) / parts) for part in range(parts)]
    return tuple(
        (float(round(math.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * score))), 1 / parts)
        for score in scores
    )


@dataclass(frozen=True)
class Kind:
    """Traffic of one kind: answers are exponentially long."""

    worker: str
    prompts: Lengths
    output: float
    promise: Promise

    @property
    def hardware(self) -> Hardware:
        return hardware(self.worker)

    @property
    def model(self) -> Worker:
        found = self.hardware
        (a, b, c), (d0, d1, d2) = found.prefill, found.decode
        return Worker(MixedStep(d0, d1, d2, b, c), found.kv_tokens, found.max_sequences, max(0.0, a - d0))

    def traffic(self, rate: float) -> Traffic:
        return Traffic(rate, self.prompts, self.output)

    def trace(self, rate: float, seed: int, requests: int = 3_000) -> Trace:
        random = np.random.default_rng(seed)
        arrival = np.cumsum(random.exponential(1.0 / rate, requests))
        lengths, shares = zip(*self.prompts, strict=True)
        output = np.maximum(1.0, np.rint(random.exponential(self.output, requests)))
        return Trace(
            "grid",
            arrival,
            np.rint(random.choice(lengths, requests, p=shares)),
            output,
            float(arrival[-1]) + 1,
        )

    def served(self, rate: float, chunking: Chunking, seed: int) -> Served:
        return serve(self.trace(rate, seed), [self.hardware], chunking)

    def late(self, rate: float, chunking: Chunking, seed: int) -> float:
        """The larger of both shares of late requests, without the first tenth."""
        served = self.served(rate, chunking, seed)
        warm = len(served.ttft) // 10
        first = np.mean(served.ttft[warm:] > self.promise.ttft_seconds)
        return float(max(first, np.mean(served.tpot[warm:] > self.promise.tpot_seconds)))

    def simulated_capacity(self, chunking: Chunking, seeds: tuple[int, ...] = (1,)) -> float:
        """Requests per second that one worker serves with both promises kept."""
        return most(
            lambda rate: (
                sum(self.late(rate, chunking, seed) for seed in seeds) / len(seeds) <= self.promise.allowance
            )
        )

    def predicted_capacity(self, chunking: Chunking) -> float:
        """The same by the model."""
        return capacity(self.model, self.traffic(1.0), self.promise, chunking)

    def tuned(self, rate: float, now: Chunking = DEFAULT) -> Tuned:
        """For ten workers."""
        return tune(self.model, self.traffic(rate), self.promise, now, 10)


def most(enough: Callable[[float], bool], halvings: int = 6) -> float:
    """The largest rate at which it holds; 0: not at 0.02 per second."""
    low, high = 0.0, 0.02
    while enough(high):
        low, high = high, 2.0 * high
    for _ in range(halvings if low else 0):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


KINDS = {
    "chat": Kind("h100-llama-8b", log_normal(1000, 1.0), 200, Promise(0.5, 0.03, 0.05)),
    "chat, strict": Kind("h100-llama-8b", log_normal(1000, 1.0), 200, Promise(0.3, 0.012, 0.05)),
    "documents": Kind("h100-llama-8b", log_normal(6000, 0.5), 150, Promise(1.5, 0.03, 0.05)),
    "3 % of 16,000 tokens": Kind(
        "h100-llama-8b", ((300.0, 0.97), (16_000.0, 0.03)), 150, Promise(0.4, 0.03, 0.05)
    ),
    "the same, strict TPOT": Kind(
        "h100-llama-8b", ((300.0, 0.97), (16_000.0, 0.03)), 150, Promise(0.4, 0.014, 0.05)
    ),
    "10 % of 8,000 tokens": Kind(
        "h100-llama-8b", ((400.0, 0.9), (8_000.0, 0.1)), 150, Promise(1.0, 0.025, 0.05)
    ),
    "short answers": Kind("h100-llama-8b", log_normal(2000, 0.9), 30, Promise(0.6, 0.04, 0.05)),
    "chat, 70B": Kind("h100-llama-70b-tp4", log_normal(1000, 1.0), 250, Promise(1.0, 0.04, 0.05)),
    "documents, 70B": Kind("h100-llama-70b-tp4", log_normal(4000, 0.6), 250, Promise(2.0, 0.05, 0.05)),
    "4 % of 12,000 tokens, 70B": Kind(
        "h100-llama-70b-tp4", ((500.0, 0.96), (12_000.0, 0.04)), 200, Promise(1.3, 0.05, 0.05)
    ),
}


def main() -> None:
    print(
        "| traffic | default | requests/s | tuned | requests/s | best of the grid | requests/s | predicted |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, kind in KINDS.items():
        grid = {one: kind.simulated_capacity(one) for one in {DEFAULT, *Grid().settings()}}
        best = max(grid, key=lambda one: grid[one])
        pick = kind.tuned(10.0).best.chunking
        print(
            f"| {name} | {_told(DEFAULT)} | {grid[DEFAULT]:.2f} | {_told(pick)} | {grid[pick]:.2f} | {_told(best)} "
            f"| {grid[best]:.2f} | {kind.predicted_capacity(pick):.2f} |",
            flush=True,
        )


def _told(chunking: Chunking) -> str:
    return f"{chunking.budget}" + (f" / {chunking.threshold}" if chunking.threshold else "")


if __name__ == "__main__":
    main()
