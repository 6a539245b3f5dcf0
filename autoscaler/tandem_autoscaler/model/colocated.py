"""How many requests are late on a worker that computes prompts and answers in the same steps (ALGORITHM 4.9).

r requests/s with prompts of n tokens and answers of O tokens in steps of d0 + d1 B + d2 K + b p:

    P(n) = b n + c n^2                           a prompt's own work
    tau  = (d0 + V/O) / (1 - r (E[P] + O (d1 + d2 c)))    time per token; V is the work that is left behind by a prompt
    B    = r O tau                               answers in a step; without prompts it takes d = d0 + (d1 + d2 c) B
    m    = M - B                                 tokens that a step of M has left for prompts
    W(n) = P(n) + d n / m                        work of a prompt: its own, and the answers' steps that it lengthens

**First token.** First come first served, prompts are the customers of a queue with work W. With a threshold L the long
ones (n > L) share the steps. While j are at work a step takes d + b L j, and each needs n / L of them, so that they
leave at a rate of j L / (n (d + b L j)): a processor that is shared, whose distribution of j is a product of such
ratios and no more than their mean n matters (Kelly 1979). A short one waits only when they fill the step, j >= m / L.

**Token after token.** What prompts add to an answer's O steps is a sum of a Poisson number of P's: of those that come
meanwhile, and of those that were left behind when it began. A step takes no more than m of their tokens, and with a
threshold no more than L of each.

One worker by itself: a router that counts open requests sees answers and hardly any prompts, so that its choice helps
a prompt little. In simulation seven or eight workers behind one serve about what is predicted here each.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from tandem_autoscaler.model.mixed_step import Chunking, MixedStep
from tandem_autoscaler.model.prompt_lengths import Lengths

# Cells of the grid on which the sum of prompts' times is computed.
_CELLS = 512
# Capacities are found to half a percent, from a thousandth of what the worker has time for.
_LEAST_OF_ALL, _HALVINGS = 1000.0, 11
# The normal distribution at three points: Gauss and Hermite's (deviations, weight).
_NORMAL = ((-math.sqrt(3.0), 1.0 / 6.0), (0.0, 2.0 / 3.0), (math.sqrt(3.0), 1.0 / 6.0))
# The exponential distribution with mean 1 in parts, finer where answers are short: (middle, weight).
_EXPONENTIAL = tuple(
    (-math.log1p(-(low + high) / 2.0), high - low) for low, high in pairwise((0.0, 0.02, 0.07, 0.2, 0.5, 1.0))
)


@dataclass(frozen=True)
class Worker:
    """`latency_seconds` pass before a prompt is seen: HTTP, tokenizer."""

    step: MixedStep
    kv_tokens: float
    max_sequences: float
    latency_seconds: float = 0.0


@dataclass(frozen=True)
class Traffic:
    """`prompts` are tokens to compute, that is without what the prefix cache has."""

    arrivals: float  # per second
    prompts: Lengths
    output_tokens: float
    arrival_scv: float = 1.0

    @property
    def prompt_tokens(self) -> float:
        return sum(tokens * share for tokens, share in self.prompts)

    @property
    def context_tokens(self) -> float:
        """Of a sequence in decode, in the mean: its prompt and half of its answer."""
        return self.prompt_tokens + self.output_tokens / 2.0


@dataclass(frozen=True)
class Promise:
    ttft_seconds: float
    tpot_seconds: float
    allowance: float  # share of requests that may miss one of them


@dataclass(frozen=True)
class Predicted:
    """Shares of requests; `batch` answers per step and `tpot_seconds` in the mean, per worker."""

    late_first: float
    late_tokens: float
    batch: float
    tpot_seconds: float

    @property
    def in_time(self) -> float:
        return (1.0 - self.late_first) * (1.0 - self.late_tokens)

    def keeps(self, promise: Promise) -> bool:
        return self.within(promise.allowance, promise.allowance)

    def within(self, late_first: float, late_tokens: float) -> bool:
        return self.late_first <= late_first and self.late_tokens <= late_tokens


_HOPELESS = Predicted(1.0, 1.0, math.inf, math.inf)


def predict(worker: Worker, traffic: Traffic, promise: Promise, chunking: Chunking) -> Predicted:
    """What one worker does with this traffic. All are late where the work, or its KV cache, is more than it has."""
    if traffic.arrivals <= 0:
        return Predicted(0.0, 0.0, 0.0, worker.step.base)
    rate, step, output = traffic.arrivals, worker.step, traffic.output_tokens
    context = traffic.context_tokens
    each = step.per_sequence + step.per_context * context
    prompts = [(tokens, step.of_prompt(tokens), share) for tokens, share in traffic.prompts]
    free = 1.0 - rate * (sum(seconds * share for _, seconds, share in prompts) + output * each)
    if free <= 0.0:
        return _HOPELESS
    room = min(worker.max_sequences, worker.kv_tokens / context)
    tau, queue = step.base / free, None
    for _ in range(3):  # the batch makes the queue, and what is left in the queue the batch
        batch = rate * output * tau
        left = chunking.budget - batch
        if batch + 2.0 * math.sqrt(batch) > room or left < 1.0:
            return _HOPELESS
        queue = _Queue(rate, step.base + each * batch, left, prompts, step, chunking, traffic.arrival_scv)
        if queue.load >= 1.0:
            return Predicted(1.0, 1.0, batch, tau)
        behind = sum(seconds * number for seconds, number in queue.left_behind)
        tau = (step.base + behind / output) / free
    assert queue is not None
    spare = promise.tpot_seconds - queue.decode_step
    deviation = each * math.sqrt(batch / free)
    return Predicted(
        queue.late(promise.ttft_seconds - worker.latency_seconds),
        _slow(queue, tau, output, spare, deviation), batch, tau,
    )  # fmt: skip


def capacity(worker: Worker, traffic: Traffic, promise: Promise, chunking: Chunking) -> float:
    """Requests of this kind per second that one worker serves with both promises kept; 0: not even now and then."""

    def kept(arrivals: float) -> bool:
        return predict(worker, replace(traffic, arrivals=arrivals), promise, chunking).keeps(promise)

    high = most_arrivals(worker, traffic)
    low = high / _LEAST_OF_ALL
    if not kept(low):
        return 0.0
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def most_arrivals(worker: Worker, traffic: Traffic) -> float:
    """Requests of this kind per second that are as much work as one worker has time for; no promise is kept then."""
    step = worker.step
    own = sum(step.of_prompt(tokens) * share for tokens, share in traffic.prompts)
    each = step.per_sequence + step.per_context * traffic.context_tokens
    return 1.0 / (own + traffic.output_tokens * each)


@dataclass(frozen=True)
class _Queue:
    """Prompts on their way to their first token. `prompts`: (tokens, own seconds, share)."""

    rate: float
    decode_step: float
    left: float  # tokens of a step for prompts
    prompts: list[tuple[float, float, float]]
    step: MixedStep
    chunking: Chunking
    arrival_scv: float

    @property
    def shares(self) -> bool:
        return self.chunking.threshold > 0

    @property
    def cap(self) -> float:
        """Most tokens of one prompt in one step."""
        return min(self.left, float(self.chunking.threshold)) if self.shares else self.left

    @cached_property
    def load(self) -> float:
        """With full steps."""
        return self.rate * sum(self._work(tokens, own) * share for tokens, own, share in self.prompts)

    @cached_property
    def at_work(self) -> list[float]:
        """P(j long prompts are at work), j from 0; the last one: as many or more as leave nothing of a step."""
        long = [(tokens, own, share) for tokens, own, share in self.prompts if tokens > self.cap]
        if not self.shares or not long:
            return [1.0, 0.0]
        # Of a prompt's work beyond b n (attention) every token bears its part.
        steps = sum(tokens * share for tokens, _, share in long) / self.cap
        work = sum(own * share for _, own, share in long)
        weights = [1.0]
        most = max(1, math.ceil(self.left / self.cap))
        for j in range(1, most + 1):
            weights.append(weights[-1] * self.rate * (steps * self.decode_step / j + work))
        ratio = self.rate * (steps * self.decode_step / most + work)
        weights[-1] = weights[-1] / (1.0 - ratio) if ratio < 1.0 else math.inf
        total = sum(weights)
        return [0.0] * most + [1.0] if math.isinf(total) else [weight / total for weight in weights]

    @cached_property
    def left_behind(self) -> list[tuple[float, float]]:
        """(seconds of a prompt's work that is left, mean number of such) when a prompt has its first token.

        By Little's law r T of them are there, T being how long each stays; in a shared processor half done.
        """
        if not self.shares:
            stay = self._mean_wait() + sum(
                self._alone(tokens, own) * share for tokens, own, share in self.prompts
            )
            return [(own, self.rate * stay * share) for _, own, share in self.prompts]
        longer = sum(j * share for j, share in enumerate(self.at_work)) * self.step.per_token * self.cap
        return [
            (
                own / 2.0,
                self.rate * share * (own + math.ceil(tokens / self.cap) * (self.decode_step + longer)),
            )
            for tokens, own, share in self.prompts
        ]

    def longer_than(self, seconds: float) -> float:
        """Share of the time that prompts add more than that to a step, at most.

        For long prompts to do so, several must be at work, because each has no more than `cap` tokens of a step.
        """
        if not self.shares:
            return min(1.0, self.load)
        several = math.ceil(seconds / (self.step.per_token * self.cap))
        short = self.rate * sum(
            self._work(tokens, own) * share for tokens, own, share in self.prompts if tokens <= self.cap
        )
        return min(1.0, short + sum(self.at_work[several:]))

    def late(self, target: float) -> float:
        """Share of prompts whose first token comes later than that."""
        found = 0.0
        for tokens, own, share in self.prompts:
            if not self.shares:
                found += share * self._behind(target - self._alone(tokens, own))
            elif tokens > 0.5 * self._usual:
                found += share * self._late_among(tokens, own, target)
            else:
                found += share * self._late_beside(tokens, own, target)
        return min(1.0, found)

    @cached_property
    def _usual(self) -> float:
        """Tokens of the prompts at work, weighted by how long they are there; infinite where none is long."""
        long = [(tokens, share) for tokens, _, share in self.prompts if tokens > self.cap]
        if not long:
            return math.inf
        return sum(tokens * tokens * share for tokens, share in long) / sum(
            tokens * share for tokens, share in long
        )

    def _work(self, tokens: float, own: float) -> float:
        return own + tokens / self.left * self.decode_step

    def _alone(self, tokens: float, own: float) -> float:
        """First token on a worker that has only answers to make: half a step until it is seen, then its own."""
        steps = 1.0 if not self.chunking.enabled else math.ceil(tokens / self.left)
        return own + (steps + 0.5) * self.decode_step

    def _sharing(self, tokens: float, own: float, others: int) -> float:
        """First token while so many long prompts are at work; infinite when they leave nothing of a step."""
        taken = others * self.cap
        room = min(self.cap, self.left - taken)
        if room < 1.0:
            return math.inf
        steps = math.ceil(tokens / room)
        return own + (steps + 0.5) * (self.decode_step + self.step.per_token * taken)

    @cached_property
    def _tail(self) -> tuple[float, float]:
        """(P(a prompt waits), decay of its wait per second), first come first served: Allen and Cunneen."""
        work = [(self._work(tokens, own), share) for tokens, own, share in self.prompts]
        mean = sum(w * share for w, share in work)
        scv = max(0.0, sum(w * w * share for w, share in work) / mean**2 - 1.0)
        return self.load, 2.0 * (1.0 - self.load) / ((self.arrival_scv + scv) * mean)

    def _mean_wait(self) -> float:
        waiting, decay = self._tail
        return waiting / decay

    def _behind(self, seconds: float) -> float:
        """P(the queue ahead takes longer)."""
        waiting, decay = self._tail
        return 1.0 if seconds <= 0.0 else waiting * math.exp(-decay * seconds)

    def _late_beside(self, tokens: float, own: float, target: float) -> float:
        """Of a prompt that is done before the number of long ones at work has changed."""
        found, last = 0.0, 0.0
        *some, blocked = self.at_work
        for others, share in enumerate(some):
            took = self._sharing(tokens, own, others)
            if took < math.inf:
                last = took
                found += share * float(took > target)
            else:
                blocked += share
        # No room at all: it waits for one of them to end.
        _, decay = self._tail
        return min(1.0, found + blocked * math.exp(-decay * max(0.0, target - last)))

    def _late_among(self, tokens: float, own: float, target: float) -> float:
        """Of a long prompt, which the others slow down all the while.

        Its time beyond its own S has a variance of S rate E[W^2] / (1 - rho)^3 (a long customer of a shared processor),
        and is taken for log-normal.
        """
        alone = self._sharing(tokens, own, 0)
        slack = target - alone
        if slack <= 0.0:
            return 1.0
        others = sum(j * share for j, share in enumerate(self.at_work))
        mean = math.ceil(tokens / self.cap) * self.step.per_token * self.cap * others
        if mean <= 0.0:
            return 0.0
        second = sum(self._work(t, o) ** 2 * share for t, o, share in self.prompts)
        variance = alone * self.rate * second / (1.0 - self.load) ** 3
        sigma = math.sqrt(math.log1p(variance / mean**2))
        return 0.5 * math.erfc((math.log(slack / mean) + sigma * sigma / 2.0) / (sigma * math.sqrt(2.0)))


def _slow(queue: _Queue, tau: float, output: float, spare: float, deviation: float) -> float:
    """Share of answers to whose steps prompts add more than `spare` seconds in the mean.

    Answers are taken to be exponentially long: their mean is what is measured, and short ones are hit harder. The
    batch varies too: `deviation` is that of a step without prompts, taken at three points of the normal distribution.
    """
    found = 0.0
    for deviations, weight in _NORMAL:
        room = spare - deviations * deviation
        if room <= 0.0:
            found += weight
        elif queue.step.per_token * queue.left > room:
            found += weight * min(queue.longer_than(room), _sums_above(queue, tau, output, room))
    return found


def _sums_above(queue: _Queue, tau: float, output: float, spare: float) -> float:
    """P(the prompts during an answer take more than `spare` per step)."""
    found = 0.0
    for factor, weight in _EXPONENTIAL:
        steps = max(output * factor - 1.0, 1.0)
        sums = [(own / steps, queue.rate * steps * tau * share) for _, own, share in queue.prompts]
        sums += [(seconds / steps, number) for seconds, number in queue.left_behind]
        found += weight * _sum_above(tuple(sums), spare)
    return found


@lru_cache(maxsize=4096)
def _sum_above(sums: tuple[tuple[float, float], ...], limit: float) -> float:
    """P(a sum of (size, mean number), each number Poisson, is above `limit`), by the transform of the sum on a grid."""
    mean = sum(size * number for size, number in sums)
    second = sum(size * size * number for size, number in sums)
    top = max(2.0 * limit, mean + 8.0 * math.sqrt(second), 2.0 * max(size for size, _ in sums))
    cell = top / _CELLS
    density = np.zeros(2 * _CELLS)
    for size, number in sums:
        density[min(2 * _CELLS - 1, round(size / cell))] += number
    total = np.fft.irfft(np.exp(np.fft.rfft(density) - density.sum()), 2 * _CELLS)
    return float(min(1.0, max(0.0, 1.0 - total[: int(limit / cell) + 1].sum())))
