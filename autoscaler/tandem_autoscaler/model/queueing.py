"""How likely a prompt is late in a pool of prefill workers (ALGORITHM 4.3).

R        offered load in Erlang: arrivals per second x mean service seconds
C(c, R)  Erlang's waiting probability
theta    rate of the waiting time's exponential tail (Allen-Cunneen)
P(c)     sum_k p_k (S_k >= T ? 1 : C exp(-theta (T - S_k)))
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Distribution = Sequence[tuple[float, float]]
"""(service seconds, probability), probabilities adding up to 1."""

# Routers that look at the workers' load keep one common queue, near enough. The others deal blindly, and then
# each worker has a queue of its own.
POOLED_POLICIES = frozenset({"power_of_two", "cache_aware", "least_work"})


def dealt(arrival_scv: float, workers: int) -> float:
    """Squared coefficient of variation of the gaps at one of so many queues: dealt to many, bursts thin out."""
    return 1.0 + (arrival_scv - 1.0) / workers


def erlang_c(servers: int, load: float) -> float:
    """Probability of waiting with `servers` servers and `load` Erlang; 1 when they are not enough."""
    if servers <= load:
        return 1.0
    if load <= 0:
        return 0.0
    blocking = 1.0
    for n in range(1, servers + 1):
        blocking = load * blocking / (n + load * blocking)
    return _waiting(blocking, load / servers)


def _waiting(blocking: float, utilisation: float) -> float:
    """Erlang's C from his B."""
    return min(1.0, blocking / (1.0 - utilisation * (1.0 - blocking)))


@dataclass(frozen=True)
class Moments:
    """Mean of the service time and its squared coefficient of variation."""

    mean_seconds: float
    scv: float


def moments(distribution: Distribution) -> Moments:
    mean = sum([seconds * share for seconds, share in distribution])
    second = sum([seconds * seconds * share for seconds, share in distribution])
    return Moments(mean, max(0.0, second / (mean * mean) - 1.0) if mean > 0 else 0.0)


def violation(
    servers: int, arrivals: float, distribution: Distribution, target_seconds: float, *, arrival_scv: float = 1.0,
    pooled: bool = True,
) -> float:  # fmt: skip
    """Share of prompts whose wait plus service exceeds the target, between 0 and 1.

    `arrivals` per second over the whole pool. Not pooled: each worker is an M/G/1 queue of its own, fed by a
    share of the arrivals that is the more random the more workers there are.
    """
    queue = _Queue(arrivals, distribution, target_seconds, arrival_scv, pooled)
    return queue.late(servers) if queue.load > 0 else queue.hopeless


class _Queue:
    """`violation` for one load: a sizing asks for many pools, and each builds on what the smaller ones gave."""

    def __init__(
        self, arrivals: float, distribution: Distribution, target_seconds: float, arrival_scv: float, pooled: bool
    ) -> None:  # fmt: skip
        service = moments(distribution)
        self.load = max(0.0, arrivals * service.mean_seconds)  # Erlang
        self.hopeless = sum([share for seconds, share in distribution if seconds >= target_seconds])
        self._service = service
        self._in_time = [
            (target_seconds - seconds, share) for seconds, share in distribution if seconds < target_seconds
        ]
        self._arrival_scv = arrival_scv
        self._pooled = pooled
        self._blocking = [1.0]  # Erlang's B, by servers
        self._late: dict[int, float] = {}

    def late(self, servers: int) -> float:
        """Share of late prompts."""
        found = self._late.get(servers)
        if found is None:
            found = self._late[servers] = self._found(servers)
        return found

    def _found(self, servers: int) -> float:
        load, service = self.load, self._service
        if servers <= load:
            return 1.0
        utilisation = load / servers
        if self._pooled:
            blocking = self._blocking
            for n in range(len(blocking), servers + 1):
                blocking.append(load * blocking[-1] / (n + load * blocking[-1]))
            waiting = _waiting(blocking[servers], utilisation)
            scv, parallel = self._arrival_scv + service.scv, servers
        else:
            waiting = utilisation
            scv, parallel = dealt(self._arrival_scv, servers) + service.scv, 1
        rate = 2.0 * parallel * (1.0 - utilisation) / max(scv * service.mean_seconds, 1e-12)
        waits = sum([share * math.exp(-rate * slack) for slack, share in self._in_time])
        return min(1.0, self.hopeless + waiting * waits)


@dataclass(frozen=True)
class Sizing:
    """The smallest number of workers that keeps the promise, and what it rests on."""

    workers: int
    load: float  # Erlang
    violation: float  # predicted with `workers`
    allowed: float
    infeasible_share: float  # prompts that are late even on an idle worker
    feasible: bool


# Where most prompts are late anyway, the tail says nothing about how many workers are right; then they are
# only kept from drowning.
UTILISATION_WHEN_INFEASIBLE = 0.85


def smallest_pool(
    arrivals: float, distribution: Distribution, target_seconds: float, allowance: float, *,
    allowed: float | None = None, arrival_scv: float = 1.0, pooled: bool = True, least: int = 1, most: int = 10_000,
) -> Sizing:  # fmt: skip
    """min{c > R, c >= least : P(c) <= allowed}; `allowed` is 0.8 x allowance unless given.

    Prompts that are late by themselves cannot be helped by workers: when they alone take half of the allowance,
    the rest is sized as if they were permitted, and `feasible` is False. Zero workers suffice for no arrivals.
    """
    queue = _Queue(arrivals, distribution, target_seconds, arrival_scv, pooled)
    load, hopeless = queue.load, queue.hopeless
    allowed, feasible = 0.8 * allowance if allowed is None else allowed, hopeless < allowance / 2
    if not feasible:
        allowed = hopeless + max(allowance / 2, allowed - allowance)
    if load <= 0 or not math.isfinite(load):
        return Sizing(0, 0.0, hopeless, allowed, hopeless, feasible)
    if load >= most:
        return Sizing(most, load, 1.0, allowed, hopeless, feasible)
    least = max(least, math.floor(load) + 1)
    if not feasible:
        least = max(least, math.ceil(load / UTILISATION_WHEN_INFEASIBLE))
    if allowed >= 1.0 or least >= most:
        return Sizing(min(least, most), load, queue.late(least), allowed, hopeless, feasible)
    # P falls with c. The answer is near the least: go up in strides that double until it is low enough, then bisect.
    low = high = least
    while queue.late(high) > allowed and high < most:
        low, high = high + 1, min(most, 2 * high - least + 1)
    while low < high:
        middle = (low + high) // 2
        if queue.late(middle) <= allowed:
            high = middle
        else:
            low = middle + 1
    return Sizing(high, load, queue.late(high), allowed, hopeless, feasible)
