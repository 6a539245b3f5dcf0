"""The arrivals to be ready for: those of the present, plus what may come until new workers serve."""

from dataclasses import dataclass

from tandem_autoscaler.decide.demand import Demand
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.words import rounded
from tandem_autoscaler.fleet.service import Service


@dataclass(frozen=True)
class Ahead:
    """Arrivals per second that the workers ordered now should be able to take, and how that was found.

    `keep` is a somewhat higher rate: a pool shrinks only to what that one needs, so that chance alone does not make it
    swing across a rounding edge.
    """

    rate: float
    keep: float
    because: str
    ratio: float | None = None  # learnt, to be remembered over a restart


def look_ahead(
    demand: Demand, each: float | None, service: Service, present: float | None, now_seconds: float,
    horizon_seconds: float, settings: Settings, *, chance: float, quantile: float, prior_ratio: float,
) -> Ahead | None:  # fmt: skip
    """Arrivals for one role, from its `demand` in units of work of which a request of today brings `each`.

    Work, not requests, because the mix may shift at a constant rate of requests. None while nothing is known, or no
    longer enough. `quantile`: of the highest demand until the horizon is over; `prior_ratio` times the present one is
    taken for it while too few forecasts were judged. `present` (requests per second) is None while the arrivals are
    unknown; `chance` is the part by which it may be off because requests come at random.
    """
    if present is None:
        return _blind(demand, each, service, now_seconds, horizon_seconds, settings)
    if service.headroom is not None:
        rate = present * (1.0 + service.headroom)
        return Ahead(rate, rate * (1.0 + chance), f"with {service.headroom:.0%} headroom")
    found = demand.highest(quantile, prior_ratio)
    if found is None or not each:
        # A request's work is unknown until one was served, but none are known to cost nothing.
        return Ahead(0.0, 0.0, "with nothing asked for") if present <= 0 else None
    rate = found.rate / each
    if present <= 0 and rate * horizon_seconds < settings.negligible_requests:
        return Ahead(0.0, 0.0, "with nothing expected", found.ratio)
    because = (
        f"up to {rounded(rate)}/s within {horizon_seconds:.0f} s ({found.expert} x {found.ratio:.2f}, "
        f"learnt from {found.judged} forecasts)"
    )
    if present > rate:
        rate, because = present, f"{rounded(present)}/s just now, more than foreseen"
    return Ahead(rate, rate * (1.0 + chance), because, found.ratio)


def _blind(
    demand: Demand, each: float | None, service: Service, now_seconds: float, horizon_seconds: float,
    settings: Settings,
) -> Ahead | None:  # fmt: skip
    """What may have come about unseen: the longer the silence, the more (ALGORITHM 4.11). Before that: unknown."""
    silent = now_seconds - float(demand.at[-1]) if len(demand.at) else 0.0
    if silent < settings.blind_seconds:
        return None
    widened = demand.widened(service.demand_quantile, horizon_seconds + silent)
    if widened is None or not each:
        return None
    widened /= each
    return Ahead(widened, widened, f"up to {rounded(widened)}/s after {silent:.0f} s without measurements")
