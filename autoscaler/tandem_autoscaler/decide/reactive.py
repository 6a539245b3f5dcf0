"""What raises a need beyond the model's, and when it must not (ALGORITHM 4.7, 4.8). Nothing here ever lowers."""

import math
from dataclasses import dataclass

from tandem_autoscaler.decide.attainment import LEAST_REQUESTS, burn
from tandem_autoscaler.decide.decision import Why
from tandem_autoscaler.decide.load import Load
from tandem_autoscaler.decide.need_prefill import SECONDS_PER_PROMPT, Need, decode_share
from tandem_autoscaler.decide.quality import RoleCount
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import RoleMemory, ServiceState
from tandem_autoscaler.decide.words import rounded
from tandem_autoscaler.fleet.service import Pool, Service, Targets, decode_role, prefill_role
from tandem_autoscaler.model.queueing import moments

FAST_BURN_MINUTE, FAST_BURN_FIVE_MINUTES = 4.0, 2.0


@dataclass(frozen=True)
class Raise:
    """A raised need with its reason. `workers` is never below the need it was made from."""

    workers: int
    why: Why
    because: str


def decode_is_full(service: Service, load: Load, counts: RoleCount, settings: Settings) -> bool:
    """True when decode workers have no room: then prefill's KV waits for them and the first token is theirs.

    Engines that do not tell why a request waits count those whose KV is on its way as waiting, so some waiting alone
    means nothing; it must be more than one per two running sequences, or the KV cache or the batch must be full.
    """
    if (load.decode_kv or 0.0) > 0.9 or load.preemptions > 0:
        return True
    pool = service.pools.get(decode_role(service))
    slots = (
        pool.max_sequences if pool and pool.max_sequences else settings.default_max_sequences
    ) * counts.ready
    running, waiting = load.decode_running or 0.0, load.decode_waiting or 0.0
    return waiting > 0 and (running >= 0.95 * slots > 0 or waiting > 2.0 + running / 2.0)


def raise_prefill(
    need: Need, state: ServiceState, service: Service, targets: Targets, load: Load, counts: RoleCount,
    memory: RoleMemory, settings: Settings, cold_start_seconds: float,
) -> Raise | None:  # fmt: skip
    """More prefill workers than the model asks for, or None."""
    base = need.workers or 0
    waiting = load.prefill_waiting
    if waiting and (each := _seconds_per_prompt(need, state)) is not None:
        work = waiting * each
        if work > 0.5 * targets.ttft_seconds * max(counts.ready, 1):
            work += max(0.0, need.load - counts.ready) * cold_start_seconds
            drain = math.ceil(need.load + work / settings.drain_target_seconds)
            workers = max(base, min(2 * max(base, 1), drain))
            if workers > base:
                return Raise(
                    workers, Why.BACKLOG,
                    f"{waiting:.0f} prompts of {rounded(each)} s each wait or run; {workers} clear them "
                    "within a minute",
                )  # fmt: skip
    if not need.feasible:
        return None
    own_target = settings.safety * targets.ttft_seconds - decode_share(state, service, targets, settings)
    return _burning(
        prefill_role(service),
        ("gate_ttft", "ttft"),
        own_target,
        "TTFT",
        need,
        state,
        targets,
        counts,
        memory,
        settings,
    )


def _seconds_per_prompt(need: Need, state: ServiceState) -> float | None:
    """In the mean, as the need was made with, if it came so far; None while nothing is known of it."""
    if SECONDS_PER_PROMPT in need.numbers:
        return need.numbers[SECONDS_PER_PROMPT]
    prompts = state.computed_lengths
    if prompts is None or not state.prefill.known:
        return None
    return moments(state.prefill.distribution(prompts)).mean_seconds


def raise_decode(
    need: Need, state: ServiceState, service: Service, pool: Pool, targets: Targets, load: Load, counts: RoleCount,
    memory: RoleMemory, settings: Settings, cold_start_seconds: float, *, full: bool,
) -> Raise | None:  # fmt: skip
    """More decode workers than the model asks for, or None."""
    base = need.workers or 0
    limit = need.numbers.get("batchLimit")
    running, waiting = load.decode_running or 0.0, load.decode_waiting or 0.0
    if full and counts.ready and pool.role in service.pools:
        in_decode = running + waiting
        fit = math.ceil(in_decode / limit) if limit else 0
        workers = max(base, counts.ready + 1, min(2 * max(base, counts.ready), fit))
        if workers > base:
            return Raise(
                workers, Why.BACKLOG,
                f"{waiting:.0f} sequences wait beside {running:.0f} running and the workers are full",
            )  # fmt: skip
    if not need.feasible or load.flushing:
        return None
    # The stock: what is in decode by the time that a new worker serves, whatever the rates of the last minute say.
    # Answers that become longer show here first, long before the first of them ends (ALGORITHM 7c).
    coming = running + load.decode_growth * cold_start_seconds
    asked = 4.0 * (load.arrivals or 0.0) * (state.output_tokens or 0.0) * targets.tpot_seconds
    stock = max(running, min(coming, asked))
    if limit and counts.ready and stock > limit * counts.ready:
        workers = max(base, min(2 * max(base, 1), math.ceil(stock / limit)))
        if workers > base:
            more = f", {stock:.0f} when a new worker serves" if stock > running else ""
            return Raise(
                workers, Why.BACKLOG,
                f"{running:.1f} sequences are in decode{more}, and {limit:.1f} fit one worker's TPOT",
            )  # fmt: skip
    return _burning(
        decode_role(service), ("gate_tpot", "tpot", "inter_token"), targets.tpot_seconds, "TPOT", need, state,
        targets, counts, memory, settings,
    )  # fmt: skip


def _burning(
    role: str, signals: tuple[str, ...], target_seconds: float, promise: str, need: Need, state: ServiceState,
    targets: Targets, counts: RoleCount, memory: RoleMemory, settings: Settings,
) -> Raise | None:  # fmt: skip
    """A quarter more than now, when misses burn fast although the model is content.

    Only after a full minute with the present workers: the window must not hold misses from before the last of them
    came, or one overload would be answered again and again. At most twice the model's need: where that does not
    help, the cause is not the number of workers.
    """
    now = state.history.now_seconds
    if counts.ready == 0 or counts.starting > counts.stuck or target_seconds <= 0 or need.workers is None:
        return None
    since = memory.grew_at_seconds if memory.grew_at_seconds is not None else state.history.began_at_seconds
    if now - since < settings.window_seconds + 5.0:
        return None
    minute = 0.0
    # Over five minutes and one minute, and still in the last 20 s: not for misses that are over.
    for window, least, fast in (
        (settings.long_window_seconds, LEAST_REQUESTS, FAST_BURN_FIVE_MINUTES),
        (settings.short_window_seconds, 3.0, FAST_BURN_MINUTE),
        (settings.window_seconds, LEAST_REQUESTS, FAST_BURN_MINUTE),
    ):
        rate = burn(
            state.history, role, signals, target_seconds, targets.allowance, window, certain=True, least=least
        )
        if rate is None or rate < fast:
            return None
        minute = rate
    workers = min(math.ceil(1.25 * counts.ready), 2 * max(need.workers, 1))
    if workers <= need.workers:
        return None
    return Raise(
        workers, Why.SLO_BURN,
        f"{minute * targets.allowance:.0%} of the last minute's requests missed {promise} "
        f"(allowed {targets.allowance:.0%}) although the model needs only {need.workers}",
    )  # fmt: skip


def burns(
    state: ServiceState, service: Service, targets: Targets, settings: Settings, infeasible_share: float
) -> float | None:
    """The worse of both promises' burns over the last minute, by the estimate; None when neither is known.

    At 1 or more nothing shrinks. `infeasible_share`: prompts that take longer than the target alone are no misses of
    the pool's, and must not hold it for ever.
    """
    found = (
        prefill_burn(state, service, targets, settings, infeasible_share, settings.window_seconds),
        decode_burn(state, service, targets, settings.window_seconds),
    )
    return max((value for value in found if value is not None), default=None)


def prefill_burn(
    state: ServiceState, service: Service, targets: Targets, settings: Settings, infeasible_share: float,
    window_seconds: float,
) -> float | None:  # fmt: skip
    """What prefill misses of its part of the TTFT target, as a part of the allowance; None while it is not known."""
    own_seconds = targets.ttft_seconds - decode_share(state, service, targets, settings)
    found = burn(
        state.history, prefill_role(service), ("gate_ttft", "ttft"), own_seconds, targets.allowance, window_seconds,
        certain=False,
    )  # fmt: skip
    return None if found is None else found - infeasible_share / targets.allowance


def decode_burn(
    state: ServiceState, service: Service, targets: Targets, window_seconds: float
) -> float | None:
    """What decode misses of the TPOT target, as a part of the allowance; None while it is not known."""
    return burn(
        state.history, decode_role(service), ("gate_tpot", "tpot", "inter_token"), targets.tpot_seconds,
        targets.allowance, window_seconds, certain=False,
    )  # fmt: skip
