"""Two GPUs together or apart: for which traffic is it worth splitting prefill and decode?

    python -m tandem_autoscaler.simulator.break_even                     one H100 and one H200, Llama 3.1 8B
    python -m tandem_autoscaler.simulator.break_even --model llama-70b-tp4 --tpot 40ms

Each cell finds, by simulation, the most requests per second of which 95 % keep both promises: with the H100 for prompts
and the H200 for answers, and with both doing both, each time with the chunks that serve most. A published case of this
kind is +75 % (about 2,100 against 1,200 tokens/s); the table says where that holds and where it turns round. Apart, the
simulator's prefill worker computes one prompt after the other, which is hard on prompts of a few hundred tokens.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tandem_api.durations import format_seconds, parse_seconds
from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.simulator.catalogue import hardware
from tandem_autoscaler.simulator.colocated import serve
from tandem_autoscaler.simulator.fleet import Fleet, FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.run import result
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.lengths import log_normal

PROMPTS = (250, 1_000, 4_000, 16_000)  # tokens in the mean
SHARES = (0.5, 0.8, 0.9, 0.95, 0.98, 0.995)  # prompt tokens of all tokens
# vLLM's own choice on such GPUs, and what the chunk tuner would choose from.
UNTUNED = Chunking(8192)
TUNED = (UNTUNED, Chunking(2048), Chunking(2048, 512), Chunking(1024, 256), Chunking(512), Chunking(512, 128))
_KEPT = 0.95
_REQUESTS = 1_500
_SPREAD = 0.8  # coefficient of variation of both lengths, log-normal
_HALVINGS = 6


@dataclass(frozen=True)
class Promise:
    ttft_seconds: float
    tpot_seconds: float


@dataclass(frozen=True)
class Cell:
    """Requests per second of which 95 % keep both promises; 0: not even one now and then."""

    prompt: int
    output: int
    together_untuned: float
    together: float
    apart: float
    chunking: Chunking

    def gain(self, *, tuned: bool) -> float | None:
        """Apart against together: 0.75 is +75 %. Infinite where only apart serves any; None where neither does."""
        together = self.together if tuned else self.together_untuned
        if not together:
            return math.inf if self.apart else None
        return self.apart / together - 1.0


def traffic(prompt: int, output: int, rate: float, *, requests: int = _REQUESTS, seed: int = 1) -> Trace:
    """Poisson arrivals."""
    random = np.random.default_rng(seed)
    arrival = np.cumsum(random.exponential(1.0 / rate, requests))
    prompts, outputs = (
        log_normal(random, requests, mean=mean, cv=_SPREAD, most=math.inf) for mean in (prompt, output)
    )
    return Trace("even", arrival, prompts, outputs, float(arrival[-1]) + 1.0, 0.1 * float(arrival[-1]))


def cell(prefill: Hardware, decode: Hardware, promise: Promise, prompt: int, share: float) -> Cell:
    """Both GPUs with the same traffic, apart and together."""
    output = max(2, round(prompt * (1.0 - share) / share))

    def together(chunking: Chunking) -> float:
        return _most(
            lambda rate: _kept_together(traffic(prompt, output, rate), (prefill, decode), promise, chunking)
        )

    rated = {chunking: together(chunking) for chunking in TUNED}
    best = max(rated, key=lambda one: rated[one])
    apart = _most(lambda rate: _kept_apart(traffic(prompt, output, rate), prefill, decode, promise))
    return Cell(prompt, output, rated[UNTUNED], rated[best], apart, best)


def promise_for(prefill: Hardware, prompt: int, tpot_seconds: float) -> Promise:
    """A TTFT target that grows with the prompt: half a second, and three times what the mean prompt takes alone."""
    return Promise(0.5 + 3.0 * prefill.prefill_seconds(float(prompt)), tpot_seconds)


def table(cells: Sequence[Cell], shares: Sequence[float], *, tuned: bool) -> str:
    """Markdown: a row per prompt length, a column per share of prompt tokens."""
    lines = [
        "| prompt tokens | " + " | ".join(f"{100 * share:g} %" for share in shares) + " |",
        "|---" * (len(shares) + 1) + "|",
    ]
    for prompt in sorted({one.prompt for one in cells}):
        row = [one.gain(tuned=tuned) for one in cells if one.prompt == prompt]
        lines.append(f"| {prompt:,} | " + " | ".join(map(_percent, row)) + " |")
    return "\n".join(lines)


def _percent(gain: float | None) -> str:
    if gain is None:
        return "neither"
    return "only apart" if math.isinf(gain) else f"{100 * gain:+.0f} %"


def _kept_together(trace: Trace, workers: Sequence[Hardware], promise: Promise, chunking: Chunking) -> float:
    served = serve(trace, workers, chunking)
    return served.in_time(promise.ttft_seconds, promise.tpot_seconds, trace.arrival >= trace.warm_up_seconds)


def _kept_apart(trace: Trace, prefill: Hardware, decode: Hardware, promise: Promise) -> float:
    mixed = replace(
        decode, prefill=prefill.prefill, transfer_base_seconds=prefill.transfer_base_seconds,
        transfer_seconds_per_token=prefill.transfer_seconds_per_token,
    )  # fmt: skip
    settings = FleetSettings(promise.ttft_seconds, promise.tpot_seconds, cold_start_cv=0.0)
    return result(Fleet(trace, mixed, settings, 1, 1)).attainment.all_joint


def _most(kept: Callable[[float], float]) -> float:
    """The largest rate at which enough is kept, to a few percent."""
    low, high = 0.0, 0.05
    while kept(high) >= _KEPT and high < 1e4:
        low, high = high, 2.0 * high
    if low == 0.0:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if kept(middle) >= _KEPT else (low, middle)
    return low


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m tandem_autoscaler.simulator.break_even", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--model", default="llama-8b", help="a model of the catalogue with H100 and H200 (llama-8b)"
    )
    parser.add_argument("--tpot", default="20ms", help="the TPOT target (20ms)")
    options = parser.parse_args(arguments)
    try:
        tpot = parse_seconds(options.tpot)
        prefill, decode = hardware(f"h100-{options.model}"), hardware(f"h200-{options.model}")
    except ValueError as error:
        print(f"break_even: {error}", file=sys.stderr)
        return 2
    cells = []
    for prompt in PROMPTS:
        for share in SHARES:
            cells.append(cell(prefill, decode, promise_for(prefill, prompt, tpot), prompt, share))
            one = cells[-1]
            print(
                f"  {prompt} + {one.output} tokens: together {one.together_untuned * one.output:,.0f} (tuned "
                f"{one.together * one.output:,.0f}), apart {one.apart * one.output:,.0f} output tokens/s",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    print(
        f"\nApart against together, {options.model} on one H100 and one H200, TPOT within {format_seconds(tpot)}.\n"
    )
    print(f"vLLM's default chunks ({UNTUNED.budget}):\n\n{table(cells, SHARES, tuned=False)}\n")
    print(f"The best chunks for each:\n\n{table(cells, SHARES, tuned=True)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
