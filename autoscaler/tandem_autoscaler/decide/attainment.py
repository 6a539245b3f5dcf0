"""How well the two promises were kept, and how fast the allowance for misses burns."""

from tandem_autoscaler.decide.decision import Kept
from tandem_autoscaler.fleet.service import Service, Targets, decode_role, prefill_role
from tandem_autoscaler.signals.histogram import Histogram, Sum
from tandem_autoscaler.signals.window import History

# Fewer requests than this say nothing about a tail.
LEAST_REQUESTS = 10.0


def of_users(
    history: History, service: Service, targets: Targets, window_seconds: float
) -> tuple[Kept, Kept]:
    """(TTFT, TPOT) as users had them.

    Under disaggregation the first token has passed two workers: its time is the sum of the two workers' times,
    taken as independent, because no single component measures it (vllm-project/vllm#29474). It leaves out the
    router's own time between the two, a few milliseconds.
    """
    prefill, decode = prefill_role(service), decode_role(service)
    first = _histogram(
        history, decode if service.first_token_at_decode else prefill, window_seconds, "gate_ttft", "ttft"
    )
    if service.disaggregated and not service.first_token_at_decode:
        second = _histogram(history, decode, window_seconds, "gate_ttft", "ttft")
        ttft = Kept(targets.ttft_seconds)
        if first is not None and second is not None:
            both = Sum(first, second)
            if both.resolved(targets.ttft_seconds):
                # Bounds from whole buckets are too wide for a sum; the estimate is what is reported.
                share = both.share_within(targets.ttft_seconds)
                ttft = Kept(
                    targets.ttft_seconds,
                    both.tail(targets.quantile),
                    share,
                    share,
                    "prefill worker + decode worker",
                )
    else:
        ttft = _kept(first, targets.ttft_seconds, targets.quantile)
    per_token = _histogram(history, decode, window_seconds, "gate_tpot", "tpot", "inter_token")
    return ttft, _kept(per_token, targets.tpot_seconds, targets.quantile)


def _histogram(
    history: History, role: str, window_seconds: float, *signals: str, least: float = 1.0
) -> Histogram | None:
    """The first of these that counted a request; None as well where it counted fewer than `least`."""
    found = history.rates(role, window_seconds)
    for signal in signals:
        histogram = found.histograms.get(signal)
        if histogram is not None and (requests := histogram.count * found.seconds) >= 1:
            return histogram if requests >= least else None
    return None


def _kept(histogram: Histogram | None, target_seconds: float, quantile: float) -> Kept:
    if histogram is None:
        return Kept(target_seconds)
    share, tail = histogram.share_within(target_seconds), histogram.tail(quantile)
    if share is None or tail is None:
        return Kept(target_seconds)
    if not share.resolved:
        # All within the first bucket and the target too: only the mean is known (vllm#48175).
        within = histogram.mean is not None and histogram.mean <= target_seconds
        return Kept(target_seconds, None, None, 1.0 if within else None, "the buckets are too coarse")
    return Kept(target_seconds, tail.value if tail.resolved else None, share.lower, share.upper)


def burn(
    history: History, role: str, signals: tuple[str, ...], target_seconds: float, allowance: float,
    window_seconds: float, *, certain: bool, least: float = LEAST_REQUESTS,
) -> float | None:  # fmt: skip
    """Misses as a multiple of the allowance; None when too little was measured or the buckets are too coarse.

    `certain`: count only what was surely late. Raising workers rests on it, because with an engine's own fixed
    buckets a target in the middle of one would else look missed for ever. Shrinking is held back by the estimate.
    """
    histogram = _histogram(history, role, window_seconds, *signals, least=least)
    share = None if histogram is None else histogram.share_within(target_seconds)
    if share is None or not share.resolved:
        return None
    return (1.0 - (share.upper if certain else share.estimate)) / allowance
