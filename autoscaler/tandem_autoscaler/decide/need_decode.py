"""Decode workers that the tokens need (ALGORITHM 4.4)."""

import math

from tandem_api.durations import format_seconds
from tandem_autoscaler.decide.learning import context
from tandem_autoscaler.decide.load import Load
from tandem_autoscaler.decide.need_prefill import Need
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import (
    CONTEXT_TOKENS,
    DEMAND_RATIO,
    OUTPUT_TOKENS,
    STEP_BASE,
    STEP_PER_CONTEXT,
    STEP_PER_SEQUENCE,
    ServiceState,
)
from tandem_autoscaler.decide.words import rounded
from tandem_autoscaler.fleet.service import Pool, Service, Targets
from tandem_autoscaler.model.decode import DecodeModel

# Routers that look at how much each decode worker holds. A cache-aware one does so only where the difference is large.
EVEN_POLICIES = frozenset({"power_of_two", "least_work"})


def mean_batch(tokens_per_second: float, model: DecodeModel) -> tuple[float, float]:
    """(mean sequences b, standard deviation) of one worker that produces so many tokens per second.

    b is where arrivals and work balance: b = r tau(b) = r d0 / (1 - r d1). Its variance is b / (1 - r d1), which is
    Poisson's b for a worker whose step does not depend on the batch (d1 = 0, an M/G/inf queue) and the geometric
    b (1 + b) for one that only shares its time (d0 = 0, an M/G/1 processor-sharing queue). Both infinite when the
    worker cannot produce so many. Contexts of different length add to it (`DecodeModel.spread`).
    """
    base, each = model.line_now
    free = 1.0 - tokens_per_second * each
    if free <= 0:
        return math.inf, math.inf
    batch = tokens_per_second * base / free if base else (1.0 - free) / free
    return batch, model.spread * math.sqrt(batch / free)


def staffed(
    tokens_per_second: float,
    model: DecodeModel,
    batch_limit: float,
    fluctuation: float,
    *,
    even: bool = False,
) -> int:
    """min{N : b + z sigma <= B} with b, sigma of a worker that makes an N-th of the tokens: square-root staffing.

    `even`: the router looks at what each worker holds, so what comes by chance is shared by all, and a worker's part
    of it varies by sigma / sqrt(N).

    ALGORITHM 4.4 takes tau at the full batch B* for the mean as well. That is right where batching is nearly free
    (GPUs), and two to three times too much where the step grows with the batch (CPUs, long contexts), because
    such a worker at half its tokens holds far less than half its batch.
    """
    if tokens_per_second <= 0:
        return 0

    def fits(workers: int) -> bool:
        mean, deviation = mean_batch(tokens_per_second / workers, model)
        return mean + fluctuation * deviation / (math.sqrt(workers) if even else 1.0) <= batch_limit

    high = 1
    while not fits(high) and high < 1_000_000:
        high *= 2
    low = high // 2 + 1 if high > 1 else 1
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return high


def batch_limit(
    model: DecodeModel, pool: Pool, targets: Targets, settings: Settings, kv_share: float | None
) -> tuple[float, bool]:
    """(most sequences per worker, whether the target can be met at all).

    Bounded by the time per token, by the KV cache, of which a sequence takes `kv_share`, and by the engine's own
    limit. Within the safety margin of the target a single sequence is still taken for feasible, and so it is while
    only one large batch was ever seen, from which nothing follows about a small one. Where it is not, replicas
    cannot help: workers then run at the batch that doubles a lone sequence's time, which is throughput at a
    bearable price.
    """
    most = float(pool.max_sequences or settings.default_max_sequences)
    if kv_share is not None and kv_share > 0:
        most = max(1.0, min(most, settings.kv_fill / kv_share))
    batch = model.largest_batch(settings.safety * targets.tpot_seconds, most)
    if batch >= 1.0:
        return batch, True
    alone = model.seconds(1.0)
    if alone <= targets.tpot_seconds or not model.proven:
        return 1.0, True
    return max(1.0, model.largest_batch(2.0 * alone, most)), False


def need_decode(
    state: ServiceState,
    service: Service,
    pool: Pool,
    targets: Targets,
    load: Load,
    settings: Settings,
    *,
    ready: int,
) -> Need:
    """The smallest pool whose batches stay below the limit at the tokens asked for plus headroom.

    While batches of one size only were seen, at most twice the `ready` workers: the batches that they then have will
    tell the rest.
    """
    model = state.decode.at_context(*context(state))
    numbers: dict[str, float] = {}
    if model.base_seconds is not None and model.seconds_per_sequence is not None:
        numbers[STEP_BASE] = model.base_seconds
        numbers[STEP_PER_SEQUENCE] = model.seconds_per_sequence
    if model.seconds_per_context_token is not None:
        numbers[STEP_PER_CONTEXT] = model.seconds_per_context_token
    if state.output_tokens:
        numbers[OUTPUT_TOKENS] = state.output_tokens
    if state.sequence_tokens is not None:
        numbers[CONTEXT_TOKENS] = state.sequence_tokens
    ahead = load.tokens_ahead
    if ahead is None or load.decode_ahead is None:
        if state.decode_demand.remembered_ratio is not None:
            numbers[DEMAND_RATIO] = state.decode_demand.remembered_ratio
        return Need(None, "the tokens asked for are unknown", numbers)
    now = load.tokens if load.tokens is not None else ahead
    numbers["tokensPerSecond"] = now
    if ahead == 0 and load.arrivals:
        return Need(None, "no answer has been finished yet, so their length is unknown", numbers)
    if ahead == 0:
        return Need(0, "no tokens are asked for", numbers)
    if not model.known:
        return Need(None, "no token has been timed yet", numbers)
    batch, feasible = batch_limit(model, pool, targets, settings, kv_per_sequence(load, ready))
    most = math.inf if model.proven else 2 * max(ready, 1)
    even = dealt_evenly(state, service)

    def needed(demand: float) -> int:
        if not feasible:
            return max(1, math.ceil(demand * model.seconds(batch) / batch - 1e-9))
        return int(min(most, staffed(demand, model, batch, settings.fluctuation, even=even)))

    if load.decode_ahead.ratio is not None:
        numbers[DEMAND_RATIO] = load.decode_ahead.ratio
    share = load.decode_ahead.keep / load.decode_ahead.rate if load.decode_ahead.rate > 0 else 1.0
    workers = needed(ahead)
    keep = needed(ahead * share)
    mean, _ = mean_batch(now / workers, model)
    numbers |= {
        "batchLimit": batch,
        "batch": min(mean, 1e6),
        "secondsPerToken": model.seconds(max(1.0, min(mean, batch))),
        "tokensPerSecondAhead": ahead,
        "need": workers,
    }
    tpot = format_seconds(targets.tpot_seconds)
    rule = "keeps" if workers == 1 else "keep"
    because = (
        f"{rounded(now, 3)} tokens/s at {format_seconds(model.seconds(1.0))} per token alone and "
        f"{format_seconds(model.line_now[1])} more per further sequence; "
        f"{load.decode_ahead.because}: {workers} {rule} batches within {batch:.1f} (mean {mean:.1f}), "
        f"where TPOT p{targets.quantile * 100:g} stays below {tpot}"
    )
    why_not = ""
    if not feasible:
        alone = format_seconds(model.seconds(1.0))
        because = (
            f"{rounded(now, 3)} tokens/s need {workers} at a batch of {batch:.1f}, but a lone sequence already takes "
            f"{alone} per token, above TPOT {tpot}, whatever the number of workers"
        )
        why_not = (
            f"a lone sequence takes {alone} per token, above the target of {tpot}; more workers cannot help"
        )
    return Need(workers, because, numbers, feasible, why_not, 0.0, now * model.seconds(1.0), keep)


def dealt_evenly(state: ServiceState, service: Service) -> bool:
    """Do all decode workers share what comes by chance? Known only once what a sequence holds was measured."""
    return state.sequence_tokens is not None and service.router_policy in EVEN_POLICIES


def kv_per_sequence(load: Load, ready: int) -> float | None:
    """Share of a worker's KV cache that one sequence holds; None while too little is in use to tell.

    The fullest worker's use by the mean number of sequences of a worker, where the fullest has one at least: rather too
    much than too little.
    """
    running, usage = load.decode_running, load.decode_kv
    if usage is None or not running or not ready or usage < 0.1 or running < 1.0:
        return None
    return usage / max(1.0, running / ready)
