"""What is asked of a service: requests per second, their lengths, and tokens per second."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tandem_api import names
from tandem_autoscaler.decide.ahead import Ahead, look_ahead
from tandem_autoscaler.decide.burstiness import Burstiness
from tandem_autoscaler.decide.demand import Demand
from tandem_autoscaler.decide.easing import prior_for, quantile_for
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import ServiceState, changed
from tandem_autoscaler.fleet.service import Service, decode_role, prefill_role
from tandem_autoscaler.model.prefill import PrefillModel
from tandem_autoscaler.model.prompt_lengths import Lengths, lengths, mean_tokens, shortened
from tandem_autoscaler.signals.window import History, Rates

# Fewer prompts than these tell nothing of a shift.
_ENOUGH_REQUESTS = 10.0


@dataclass(frozen=True)
class Load:
    """Measured over the last minute. None: unknown, which is not zero."""

    arrivals: float | None  # requests per second, at present
    tokens: float | None  # output tokens per second that the arrivals ask for
    prefill_waiting: float | None = None  # requests in the prefill role without a first token
    decode_running: float | None = None  # mean sequences in decode
    decode_waiting: float | None = None
    decode_growth: float = 0.0  # sequences per second by which decode fills, beyond chance
    decode_kv: float | None = None  # fullest worker
    preemptions: float = 0.0
    # Prefill finishes clearly more than arrives: a backlog is being worked off. Decode then sees more for a while, but
    # a worker ordered for it would come when it is over.
    flushing: bool = False
    tokens_per_request: float = 0.0
    unserved: float = 0.0  # turned away by the router for want of a worker, since the last tick
    router_running: float | None = None
    # Arrivals to be ready for, as far as prompts and as far as outputs go; None while they are unknown.
    prefill_ahead: Ahead | None = None
    decode_ahead: Ahead | None = None
    # Arrivals per second that would make decode produce `tokens`: other than the present ones where answers are long.
    arrivals_in_decode: float | None = None
    arrival_scv: float = 1.0

    @property
    def tokens_ahead(self) -> float | None:
        """Output tokens per second to be ready for."""
        if self.decode_ahead is None:
            return None
        if self.tokens is not None and self.arrivals_in_decode:
            return self.tokens * self.decode_ahead.rate / self.arrivals_in_decode
        expected = self.decode_ahead.rate * self.tokens_per_request
        if self.tokens is None:
            return expected or None
        return max(self.tokens, expected)

    @property
    def idle(self) -> bool:
        """Known to be without traffic."""
        return (
            self.arrivals == 0.0 and not self.decode_running and not self.prefill_waiting
            and not self.unserved and not self.router_running
        )  # fmt: skip


def settled(
    long_rate: float, short_rate: float, long_seconds: float, short_seconds: float, *, scv: float = 1.0
) -> float:
    """The rate to plan for: the long window's mean, unless the short one differs beyond chance.

    A count of n has standard deviation sqrt(n scv): `scv` is the arrivals' index of dispersion, 1 for Poisson's. Where
    they come in bursts of seconds, one of those is chance too: it is over before a new worker serves. Up (ALGORITHM
    4.6's spike override) it takes 3 sigma of the long mean over the short window and adds 10 %; down it needs as much,
    so that the end of a load is seen in 20 s instead of 60; the confirmation time of a scale-down then protects
    against a lull.
    """
    if short_seconds <= 0 or long_seconds <= short_seconds:
        return long_rate
    sigma = 3.0 * math.sqrt(2.0 * scv * max(long_rate, 1e-9) / short_seconds)
    if short_rate > long_rate + sigma:
        return max(long_rate, 1.1 * short_rate)
    if short_rate < long_rate - sigma:
        return short_rate
    return long_rate


def lasting(asked: float, produced: float, stay_seconds: float, ahead_seconds: float) -> float:
    """What decode will produce in `ahead_seconds`, given that it now produces `produced` and that `asked` arrives.

    Of the answers that are being written, exp(-ahead / stay) still are then, and the others have been replaced by those
    that arrive (an M/G/inf queue; `stay_seconds` is a mean answer's time in decode). Short answers are all replaced,
    and nothing but the arrivals counts. Where answers take minutes, those of one minute are mostly chance.
    """
    if stay_seconds <= 0:
        return asked
    return asked + math.exp(-ahead_seconds / stay_seconds) * (produced - asked)


def measure(
    state: ServiceState, service: Service, settings: Settings, horizon_seconds: float, *, news: bool
) -> tuple[ServiceState, Load]:
    """The load, and the state with the newest known lengths and demand.

    `horizon_seconds`: until a worker that is ordered now serves. `news`: time has advanced since the last call.
    """
    history = state.history
    prefill, decode = prefill_role(service), decode_role(service)
    minute = history.rates(prefill, settings.window_seconds)
    short = history.rates(prefill, settings.short_window_seconds)
    five = history.rates(prefill, settings.long_window_seconds)
    router = history.rates(names.COMPONENT_ROUTER, settings.window_seconds)

    burstiness = _with_tick(state, prefill) if news else state.burstiness
    scv = burstiness.arrival_scv(settings.most_arrival_scv)
    mean = minute.rate("arrivals_total")
    arrivals = mean
    if mean is not None:
        lately = short.rate("arrivals_total") or 0.0
        arrivals = settled(mean, lately, minute.seconds, short.seconds, scv=scv)
    # The router counts what was served, and apart what found no worker: a lower bound, for when workers are silent.
    routed = router.rate("router_requests_total")
    if routed is not None and arrivals is None and service.routers and not service.past_the_router:
        mean = arrivals = routed + (router.rate("router_unserved_total") or 0.0)
    now = history.now_seconds
    found, hit_share = _present_lengths((short, minute), five) or state.lengths, state.hit_share
    total, computed = five.rate("prompt_tokens_total"), five.rate("prompt_tokens_computed_total")
    if total and computed is not None:
        hit_share = min(0.98, max(0.0, 1.0 - computed / total))
    outputs, tokens = _tokens(history, decode, arrivals, state.output_tokens, settings)
    work = _work_each(state.prefill, found, hit_share)
    produced, stay_seconds = _in_decode(history, service, decode, outputs, settings)

    def in_decode(rate: float | None) -> float | None:
        """A rate of arrivals, as the one that decode will be at when a worker ordered now serves."""
        if rate is None or not outputs:
            return rate
        return lasting(rate, produced / outputs, stay_seconds, horizon_seconds)

    decoding = in_decode(arrivals)
    if tokens is not None:
        tokens = lasting(tokens, produced, stay_seconds, horizon_seconds)
    state = changed(
        state,
        burstiness=burstiness,
        lengths=found,
        hit_share=hit_share,
        output_tokens=outputs,
        prefill_demand=_observed(state.prefill_demand, now, mean, work, horizon_seconds),
        decode_demand=_observed(state.decode_demand, now, in_decode(mean), outputs, horizon_seconds),
    )
    prefill_ahead, decode_ahead = (
        look_ahead(
            demand, each, service, rate, now, horizon_seconds, settings,
            chance=settings.chance_sigmas * math.sqrt(scv / max((rate or 0.0) * seconds, 1.0)),
            quantile=quantile_for(service.demand_quantile, state.memory(role).ease),
            prior_ratio=prior_for(settings.prior_ratio, service, role, state.memory(role).ease),
        )
        for role, demand, each, rate, seconds in (
            (prefill, state.prefill_demand, work, arrivals, settings.window_seconds),
            (decode, state.decode_demand, outputs, decoding, max(settings.window_seconds, stay_seconds)),
        )
    )  # fmt: skip
    d_short = history.rates(decode, settings.short_window_seconds)
    gaps = d_short.histogram("inter_token")
    running = gaps.total if gaps is not None else history.total(decode, "running")
    kv = history.gauge(decode, "kv_usage")
    room = history.total(decode, "waiting_for_room")
    done = short.rate("finished_total")
    in_prefill = _in_prefill(state, service, prefill)
    load = Load(
        arrivals=arrivals,
        tokens=tokens,
        prefill_waiting=in_prefill,
        decode_running=running,
        decode_growth=_growth(history, prefill, decode, settings, running, scv),
        decode_waiting=room if room is not None else history.total(decode, "waiting"),
        decode_kv=max(kv) if kv else None,
        preemptions=d_short.rate("preemptions_total") or 0.0,
        flushing=done is not None
        and arrivals is not None
        and done * short.seconds > 1.3 * arrivals * short.seconds + 3,
        unserved=history.unserved_since_last(),
        router_running=history.total(names.COMPONENT_ROUTER, "router_running"),
        prefill_ahead=prefill_ahead,
        decode_ahead=decode_ahead,
        arrivals_in_decode=decoding,
        arrival_scv=scv,
        tokens_per_request=state.output_tokens or 0.0,
    )
    return state, load


def _work_each(model: PrefillModel, found: Lengths | None, hit_share: float) -> float | None:
    """Work of a mean prompt, in tokens as if each cost the same; None while no length is known."""
    if not found:
        return None
    return sum([model.work(tokens) * share for tokens, share in shortened(found, 1.0 - hit_share)])


def _observed(
    demand: Demand, now: float, arrivals: float | None, each: float | None, horizon_seconds: float
) -> Demand:
    """With the present demand, as far as it is known."""
    if arrivals is None or not each:
        return demand
    return demand.observed(now, arrivals * each, horizon_seconds, each=each)


def _with_tick(state: ServiceState, prefill: str) -> Burstiness:
    """The arrivals of the last tick, from the workers that were read at it."""
    steps = [step for _, step in state.history.steps(prefill) if "arrivals_total" in step.counters]
    if not steps:
        return state.burstiness
    seconds = sum(step.seconds for step in steps) / len(steps)
    requests = sum(max(0.0, step.counters["arrivals_total"]) for step in steps)
    return state.burstiness.observed(state.history.now_seconds, seconds, requests)


def _present_lengths(recent: Sequence[Rates], long: Rates) -> Lengths | None:
    """The prompt lengths that go with the present arrivals.

    Five minutes show the tail best, so they are taken unless a recent window's mean lies three standard errors off:
    then the mix has shifted, and old lengths times new arrivals would size for traffic that never was.
    """
    found = lengths(long.histogram("gate_prompt_tokens", "prompt_tokens"))
    if found is None:
        return None
    mean = mean_tokens(found)
    variance = sum([share * (tokens - mean) ** 2 for tokens, share in found])
    for window in recent:
        histogram = window.histogram("gate_prompt_tokens", "prompt_tokens")
        requests = histogram.count * window.seconds if histogram is not None else 0.0
        if requests < _ENOUGH_REQUESTS:
            continue
        present = lengths(histogram)
        if present is not None and abs(mean_tokens(present) - mean) > 3.0 * math.sqrt(variance / requests):
            return present
    return found


def _growth(
    history: History, prefill: str, decode: str, settings: Settings, running: float | None, scv: float
) -> float:
    """Prompts done minus answers done, per second over the last 20 s.

    Zero where that may be chance: below 3 standard deviations of both counts, or below 2 over the whole minute. Zero
    too while decode holds no more than it usually does, by the mean of five minutes and 3 standard deviations of a
    stock that arrives with index of dispersion `scv`: what refills after a lull fills as fast as a new load, and stops.
    """
    usual = history.rates(decode, settings.long_window_seconds).histogram("inter_token")
    if usual is not None and (running or 0.0) <= usual.total + 3.0 * math.sqrt(scv * usual.total):
        return 0.0
    found = []
    for window, sigmas in ((settings.short_window_seconds, 3.0), (settings.window_seconds, 2.0)):
        begun, ended = history.rates(prefill, window), history.rates(decode, window)
        coming, going = begun.rate("finished_total"), ended.rate("finished_total")
        seconds = min(begun.seconds, ended.seconds)
        if coming is None or going is None or seconds <= 0:
            return 0.0
        if coming - going <= sigmas * math.sqrt((coming + going) / seconds):
            return 0.0
        found.append(coming - going)
    return found[0]


def _in_prefill(state: ServiceState, service: Service, prefill: str) -> float | None:
    """Requests that have no first token yet. A prefill worker holds nothing else; a colocated one also decodes."""
    held = state.history.total(prefill, "gate_in_flight")
    if service.disaggregated and held is not None:
        return held  # with late demotion most of them wait at the gate, unseen by the engine
    waiting = state.history.total(prefill, "waiting")
    if not service.disaggregated or waiting is None:
        return waiting
    return waiting + (state.history.total(prefill, "running") or 0.0)


def _in_decode(
    history: History, service: Service, decode: str, outputs: float | None, settings: Settings
) -> tuple[float, float]:
    """(tokens per second of the last minute, seconds that a mean answer is in decode); zeros while unknown.

    No longer than the promise lets it be: too small a pool produces too little and keeps its answers too long, and
    would otherwise be taken for what is asked for.
    """
    minute = history.rates(decode, settings.window_seconds)
    produced, gaps = minute.rate("output_tokens_total"), minute.histogram("inter_token")
    if not produced or not outputs or gaps is None or not gaps.mean:
        return 0.0, 0.0
    most = service.targets.tpot_seconds if service.targets is not None else gaps.mean
    return produced, outputs * min(gaps.mean, most)


def _tokens(
    history: History, decode: str, arrivals: float | None, known: float | None, settings: Settings
) -> tuple[float | None, float | None]:
    """(mean output length, `known` until now; output tokens per second that the arrivals ask for: both multiplied).

    The length of finished requests is biased to short ones after a shift to longer outputs, so it is tokens produced
    per request finished within the minute (exposure), held above 0.7 times their mean and below 4 times that of five
    minutes (which after a shift to shorter outputs is too much for a floor); the last 20 s take over when they show
    half as much again. While next to nothing finishes, what is being produced is asked for in any case. Otherwise
    production is not looked at: it rises while a backlog of prompts is worked off, and that is no lasting demand.
    """
    minute = history.rates(decode, settings.window_seconds)
    short = history.rates(decode, settings.short_window_seconds)
    produced, finished = minute.rate("output_tokens_total"), minute.rate("finished_total")
    if produced is None:
        return known, None
    if finished and finished * minute.seconds >= 1:
        known = produced / finished
        ended = history.rates(decode, settings.long_window_seconds).histogram("output_tokens")
        if ended is not None and ended.mean:
            lately = minute.histogram("output_tokens")
            least = lately.mean if lately is not None and lately.mean else ended.mean
            known = min(4.0 * ended.mean, max(0.7 * least, known))
    asked = (arrivals or 0.0) * (known or 0.0)
    now, ended_now = short.rate("output_tokens_total") or 0.0, short.rate("finished_total") or 0.0
    if ended_now * short.seconds < 3.0:
        return known, max(asked, now)
    if known and now / ended_now > 1.5 * known:
        return known, (arrivals or 0.0) * min(now / ended_now, 4.0 * known)
    return known, asked
