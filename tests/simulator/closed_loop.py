"""One worker that serves prefill and decode together, iteration by iteration, under a constant number of clients.

The measured serving points were taken so; the fleet of the simulator separates the roles. This is the same hardware
model driven the way vLLM's scheduler drives an engine: every iteration takes one token of each running sequence and
fills the rest of its token budget with waiting prompts, in order.

The method is InferenceMAX's (its README: --num-prompts 10 x concurrency, --request-rate inf, --random-range-ratio 0.8,
--max-num-batched-tokens 8192): all clients start at once, so a tenth of the requests meet a queue of the whole batch,
and every request counts.
"""

import heapq
import random
from collections import deque
from dataclasses import dataclass
from statistics import fmean

from tandem_autoscaler.simulator.hardware import Hardware

TOKEN_BUDGET = 8192
REQUESTS_PER_CLIENT = 10


@dataclass
class _Request:
    sent_at: float
    prompt: int
    output: int
    computed: int = 0
    first_token_at: float = 0.0


@dataclass(frozen=True)
class Served:
    """Means over all requests, in seconds."""

    ttft_seconds: float
    tpot_seconds: float

    def latency_seconds(self, output: int) -> float:
        return self.ttft_seconds + (output - 1) * self.tpot_seconds


def serve(
    hardware: Hardware, *, concurrency: int, prompt: int, output: int, shortest: float = 1.0, seed: int = 1
) -> Served:
    """Lengths come from U(shortest, 1) of the full ones. The KV cache is taken to be large enough."""
    d0, d1, d2 = hardware.decode
    base, b, c = hardware.prefill
    outside = max(0.0, base - d0)  # of a prompt's time, what is no iteration: HTTP, tokenizer
    draw = random.Random(seed)

    def request(at: float) -> _Request:
        prompt_tokens, output_tokens = (draw.randint(round(shortest * n), n) for n in (prompt, output))
        return _Request(at, prompt_tokens, output_tokens)

    now, iteration, resident = 0.0, 0, 0
    waiting = deque(request(0.0) for _ in range(concurrency))
    running: list[tuple[int, int, _Request]] = []  # iteration of the last token, serial, request
    sent = started = concurrency
    finished: list[tuple[float, float]] = []
    while waiting or running:
        batch = len(running)
        if waiting:
            seconds, done = d0 + d1 * batch + d2 * resident, []
            left = TOKEN_BUDGET - batch
            while waiting and left > 0:
                head = waiting[0]
                before, head.computed = head.computed, min(head.prompt, head.computed + left)
                left -= head.computed - before
                seconds += b * (head.computed - before) + c * (head.computed**2 - before**2)
                if head.computed == head.prompt:
                    done.append(waiting.popleft())
            now, iteration, resident = now + seconds, iteration + 1, resident + batch
            for head in done:
                started += 1
                resident += head.prompt + 1
                head.first_token_at = now
                heapq.heappush(running, (iteration + head.output - 1, started, head))
        else:
            steps = running[0][0] - iteration
            now += (d0 + d1 * batch + d2 * resident) * steps + d2 * batch * steps * (steps - 1) / 2
            iteration, resident = iteration + steps, resident + batch * steps
        while running and running[0][0] == iteration:
            _, _, last = heapq.heappop(running)
            resident -= last.prompt + last.output
            ttft = last.first_token_at - last.sent_at + outside
            finished.append((ttft, (now - last.first_token_at) / (last.output - 1)))
            if sent < REQUESTS_PER_CLIENT * concurrency:
                sent += 1
                waiting.append(request(now))
    return Served(fmean(ttft for ttft, _ in finished), fmean(tpot for _, tpot in finished))
