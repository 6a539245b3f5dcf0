"""Prefill workers that the prompts need (ALGORITHM 4.3)."""

from dataclasses import dataclass

from tandem_api.durations import format_seconds
from tandem_autoscaler.decide.load import Load
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import (
    DEMAND_RATIO,
    PROMPT_BASE,
    PROMPT_PER_TOKEN,
    PROMPT_TOKENS,
    ServiceState,
)
from tandem_autoscaler.decide.words import rounded
from tandem_autoscaler.fleet.service import Service, Targets
from tandem_autoscaler.model.prompt_lengths import mean_tokens
from tandem_autoscaler.model.queueing import POOLED_POLICIES, Sizing, moments, smallest_pool

SECONDS_PER_PROMPT = "secondsPerPrompt"


@dataclass(frozen=True)
class Need:
    """Workers needed by one signal, with what it rests on. `workers` None: unknown."""

    workers: int | None
    because: str
    numbers: dict[str, float]
    feasible: bool = True
    infeasible_because: str = ""
    infeasible_share: float = 0.0  # of the requests
    load: float = 0.0  # Erlang without headroom
    keep: int = 0  # a pool shrinks to no fewer than these


def need_prefill(
    state: ServiceState, service: Service, targets: Targets, load: Load, settings: Settings
) -> Need:
    """The smallest pool with P(TTFT > target) within the allowance at the measured arrivals plus headroom."""
    numbers: dict[str, float] = {}
    if state.prefill.base_seconds is not None and state.prefill.seconds_per_token is not None:
        numbers[PROMPT_BASE] = state.prefill.base_seconds
        numbers[PROMPT_PER_TOKEN] = state.prefill.seconds_per_token
    if state.lengths:
        numbers[PROMPT_TOKENS] = mean_tokens(state.lengths)
    ahead = load.prefill_ahead
    if ahead is None:
        if state.prefill_demand.remembered_ratio is not None:
            numbers[DEMAND_RATIO] = state.prefill_demand.remembered_ratio
        return Need(None, "the arrivals or their work are unknown", numbers)
    arrivals = load.arrivals if load.arrivals is not None else ahead.rate
    numbers["promptsPerSecond"] = arrivals
    if ahead.ratio is not None:
        numbers[DEMAND_RATIO] = ahead.ratio
    if ahead.rate == 0:
        return Need(0, "no prompts arrive", numbers)
    prompts = state.computed_lengths
    if prompts is None or not state.prefill.known:
        return Need(None, "no prompt has been finished yet, so their work is unknown", numbers)
    distribution = state.prefill.distribution(prompts)
    service_time = moments(distribution)
    share = decode_share(state, service, targets, settings)
    target = settings.safety * targets.ttft_seconds - share
    strict = settings.violation_share * targets.allowance
    bold = max(strict, settings.violation_with_demotion)

    def pool_for(rate: float, allowed: float, least: int = 1) -> Sizing:
        return smallest_pool(
            rate, distribution, target, targets.allowance, allowed=allowed, arrival_scv=load.arrival_scv,
            pooled=service.router_policy in POOLED_POLICIES, least=least,
        )  # fmt: skip

    def sized(rate: float) -> Sizing:
        if not service.late_demotion:
            return pool_for(rate, strict)
        # A queue of up to three workers has little to choose from, and a rise finds no other worker with room.
        least = min(pool_for(rate, strict).workers, settings.fewest_for_boldness)
        return pool_for(rate, bold, least)

    sizing = sized(ahead.rate)
    keep = sized(ahead.keep).workers
    busy = arrivals * service_time.mean_seconds
    numbers |= {
        SECONDS_PER_PROMPT: service_time.mean_seconds,
        "busyWorkers": busy,
        "predictedViolation": sizing.violation,
        "allowedViolation": sizing.allowed,
        "promptsPerSecondAhead": ahead.rate,
        "arrivalScv": load.arrival_scv,
        "need": sizing.workers,
    }
    percentile = f"p{targets.quantile * 100:g}"
    rule = "keeps" if sizing.workers == 1 else "keep"
    ttft = format_seconds(targets.ttft_seconds)
    because = (
        f"{rounded(arrivals)} prompts/s x {rounded(service_time.mean_seconds)} s each = {busy:.2f} busy workers; "
        f"{ahead.because}: {sizing.workers} {rule} TTFT {percentile} below {ttft} "
        f"(predicted violation {sizing.violation:.1%}, allowed {sizing.allowed:.1%})"
    )
    why_not = ""
    if not sizing.feasible:
        because = (
            f"{rounded(arrivals)} prompts/s x {rounded(service_time.mean_seconds)} s each = {busy:.2f} busy workers; "
            f"{sizing.workers} carry that, but {sizing.infeasible_share:.0%} of the prompts alone take longer "
            f"than TTFT {ttft}, whatever the number of workers"
        )
        why_not = (
            f"{sizing.infeasible_share:.0%} of the prompts take longer than {format_seconds(max(target, 0.0))} on an "
            f"idle worker (mean {rounded(service_time.mean_seconds)} s); more workers cannot help"
        )
    return Need(
        sizing.workers, because, numbers, sizing.feasible, why_not, sizing.infeasible_share, busy, keep
    )


def decode_share(state: ServiceState, service: Service, targets: Targets, settings: Settings) -> float:
    """Seconds of the user's TTFT that pass in the decode worker: transfer of the KV cache and the first step.

    The lower fifth of what was measured, because a full decode role must not shrink prefill's target: prefill
    workers would be added for decode's fault.
    """
    if not service.disaggregated or service.first_token_at_decode:
        # In the latter case what decode measures has prefill's time in it, and its own share is not known.
        return 0.0
    usual = state.decode_ttft.quantile(0.2) or 0.0
    return min(usual, settings.most_decode_share * targets.ttft_seconds)


def cold_start_seconds(state: ServiceState, service: Service, settings: Settings) -> float:
    """90th percentile of the measured times from creation to readiness; until then the spec's or the default."""
    if len(state.cold_starts) >= 2:
        ordered = sorted(state.cold_starts.values())
        return max(1.0, ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))])
    if state.remembered_cold_start:
        return state.remembered_cold_start
    return service.cold_start_seconds or settings.cold_start_seconds
