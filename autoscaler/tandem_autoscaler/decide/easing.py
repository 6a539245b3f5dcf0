"""The slow gain: a role whose promise is kept better than asked for is sized for less (ALGORITHM 4.6's outer loop).

The quantile of the demand is the one dial between cost and misses, and no one value suits all traffic: where arrivals
are smooth and pools are large, the quantile that bursty traffic needs keeps a worker too many. So it comes down over a
quarter of an hour while nearly nothing is missed, and is back within a minute once something is. It comes no further
down while the last half hour has missed more than may be spent: a load that is quiet between bursts is no smooth one.

Nothing of it is remembered over a restart: a new process is cautious until it has seen for itself.
"""

from tandem_autoscaler.fleet.service import Service, prefill_role

# From cautious to bold, and back.
EASING_SECONDS, RETURN_SECONDS = 900.0, 60.0
# Misses over five minutes, as parts of the allowance: below the first it eases, above the second it returns.
QUIET_BURN, LOUD_BURN = 0.04, 0.1
# What may be spent over so long and still be eased: 0.4 % of the requests of a p95 promise, so that both keep 99 %.
MOST_SPENT, SPENT_SECONDS = 0.08, 1800.0
# The quantile of a pool that is fully eased: the highest demand within the horizon is higher as often as not.
BOLDEST_QUANTILE = 0.5
# Part of the confirmation time after which prefill shrinks.
CONFIRM_SHARE = 0.5


def eased(ease: float, burning: float | None, seconds: float, *, spent: float = 0.0) -> float:
    """Between 0 (cautious) and 1 (bold), `seconds` later. Where nothing is known of misses, nothing changes.

    `burning`: what the role misses over five minutes, as a part of the allowance (`reactive.prefill_burn`,
    `decode_burn`); `spent`: the same over half an hour (`spent_later`).
    """
    if burning is None or seconds <= 0:
        return ease
    if burning < QUIET_BURN:
        if spent > MOST_SPENT:
            return ease
        return min(1.0, ease + seconds / EASING_SECONDS)
    if burning > LOUD_BURN:
        return max(0.0, ease - seconds / RETURN_SECONDS)
    return ease


def spent_later(spent: float, burning: float | None, seconds: float) -> float:
    """The exponential mean of `burning` over SPENT_SECONDS, `seconds` later."""
    if burning is None or seconds <= 0:
        return spent
    return spent + (max(0.0, burning) - spent) * min(1.0, seconds / SPENT_SECONDS)


def quantile_for(asked: float, ease: float) -> float:
    """The quantile to size for: never above the one that is `asked` for, nor below it where that is bold already."""
    return asked - ease * max(0.0, asked - BOLDEST_QUANTILE)


def prior_for(prior_ratio: float, service: Service, role: str, ease: float) -> float:
    """The ratio to size for while a service's own is unknown: prefill's comes down to 1 as it eases.

    Decode's stays: it would ease in the quiet first minutes of a bursty load, and the first burst would find it too
    small (bursty-diurnal lost 0.5 points).
    """
    return prior_ratio - ease * max(0.0, prior_ratio - 1.0) if role == prefill_role(service) else prior_ratio


def may_ease(service: Service, role: str, *, contexts_told: bool) -> bool:
    """Prefill only where late prompts step aside: its queue makes up for a rise beyond the pool.

    Decode only where its workers tell what their sequences hold. Without that its model errs by more than the quantile
    is worth: eased nevertheless it lost 0.6 points on mooncake-conv and 1.0 on bursty-diurnal.
    """
    if role == prefill_role(service):
        return _late_prompts_yield(service)
    return service.disaggregated and contexts_told


def confirm_seconds(service: Service, role: str) -> float:
    """How long `role` needs fewer workers before it shrinks: prefill half as long as asked for, where it may ease.

    A prefill worker too few costs the prompts of a cold start, and the queue lets the right ones wait. A decode worker
    too few costs every stream the KV cache that it held: halved as well, mooncake-conv lost up to 1.5 points.
    """
    bold = role == prefill_role(service) and _late_prompts_yield(service)
    return service.confirm_seconds * (CONFIRM_SHARE if bold else 1.0)


def _late_prompts_yield(service: Service) -> bool:
    return service.disaggregated and service.late_demotion
