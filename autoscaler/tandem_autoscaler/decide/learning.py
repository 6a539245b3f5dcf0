"""Measurements of single workers -> the models."""

from collections.abc import Mapping

from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import ServiceState, changed
from tandem_autoscaler.fleet.service import Service, decode_role, prefill_role
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.mixed import MixedModel
from tandem_autoscaler.model.prefill import ENOUGH_REQUESTS, PrefillModel, service_seconds
from tandem_autoscaler.model.prompt_lengths import lengths, mean_tokens
from tandem_autoscaler.model.queueing import POOLED_POLICIES, moments
from tandem_autoscaler.model.samples import Samples
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.track import Step

# Sequences whose contexts tell little of the mean one.
_FEW = 4.0


def learn(
    state: ServiceState, service: Service, settings: Settings, wall_seconds: float, *, decode_bound: bool
) -> ServiceState:
    """The state with models that have seen this tick.

    Workers that became ready less than two minutes ago teach nothing (their first passes compile and warm up;
    ai-dynamo/dynamo#12430), unless nothing is known yet: then they are all there is. While prefill is held up
    by a full decode its times are not its own, so it learns nothing either.
    """
    young = frozenset(
        [
            pod.uid
            for pod in service.pods
            if pod.ready_since_seconds is None
            or wall_seconds - pod.ready_since_seconds < settings.young_seconds
        ]
    )
    if service.disaggregated:
        # A colocated worker's cache also holds prompts that are not computed yet.
        state = changed(state, sequence_tokens=_sequence_tokens(state, decode_role(service)))
    prefill = state.prefill
    if not decode_bound:
        busy = _prefill_from_busy_time(state, service, young, settings)
        prefill = busy if busy is not None else _learn_prefill(state, service, young)
    decode, decode_ttft = _learn_decode(state, service, young)
    mixed = state.mixed if service.disaggregated else _learn_steps(state, service, young)
    return changed(state, prefill=prefill, decode=decode, decode_ttft=decode_ttft, mixed=mixed)


def _prefill_from_busy_time(
    state: ServiceState, service: Service, young: frozenset[str], settings: Settings
) -> PrefillModel | None:
    """By the utilisation law: whatever the order of service, busy time over prompts done is the mean service time.

    Over a minute of the whole role, because one long prompt may take longer than a tick. None where the gate does not
    tell its busy time.
    """
    role, model = prefill_role(service), state.prefill
    young = young if model.requests >= ENOUGH_REQUESTS else frozenset()
    minute = state.history.rates(role, settings.window_seconds, without=young)
    busy, first = minute.rate("gate_prefill_busy_seconds_total"), minute.histogram("gate_ttft", "ttft")
    if busy is None or first is None:
        return None
    new = sum(
        [
            found.count
            for track, step in state.history.steps(role)
            if track.uid not in young and (found := step.histograms.get("gate_ttft")) is not None
        ]
    )
    tokens = _computed_tokens(minute.counters, minute.histograms, first.count, state)
    if new <= 0 or tokens is None:
        return model
    work = _mean_work(minute.histograms, tokens, first.count * minute.seconds, state)
    sample = model.sample(seconds=busy / first.count, work=work, requests=new)
    return model.learn(state.history.now_seconds, [sample] if sample else [])


def _learn_prefill(state: ServiceState, service: Service, young: frozenset[str]) -> PrefillModel:
    model = state.prefill
    prompts = state.computed_lengths
    scv = moments(model.distribution(prompts)).scv if prompts else 0.0
    settled_already = model.requests >= ENOUGH_REQUESTS
    # Where the router deals blindly, each worker is a queue of its own.
    workers = sum([pod.ready for pod in service.workers(prefill_role(service))])
    workers = max(1, workers) if service.router_policy in POOLED_POLICIES else 1
    found = []
    for track, step in state.history.steps(prefill_role(service)):
        if track.uid in young and settled_already:
            continue
        measured = _sojourn(step)
        if measured is None or step.seconds <= 0:
            continue
        sojourn, requests = measured
        tokens = _computed_tokens(step.counters, step.histograms, requests, state)
        if tokens is None:
            continue
        seconds = service_seconds(sojourn, requests / step.seconds, scv, workers=workers)
        work = _mean_work(step.histograms, tokens, requests, state)
        found.append(model.sample(seconds=seconds, work=work, requests=requests))
    return model.learn(state.history.now_seconds, [sample for sample in found if sample is not None])


def _sojourn(step: Step) -> tuple[float, float] | None:
    """Mean time to the first token within the worker, and the number of requests."""
    for name in ("gate_ttft", "ttft"):
        histogram = step.histograms.get(name)
        if histogram is not None and histogram.count > 0 and histogram.mean:
            return histogram.mean, histogram.count
    prefill, queue = step.histograms.get("prefill"), step.histograms.get("queue")
    if prefill is not None and prefill.count > 0 and prefill.mean:
        waited = queue.mean if queue is not None and queue.mean else 0.0
        return prefill.mean + waited, prefill.count
    return None


def _mean_work(
    histograms: Mapping[str, Histogram], tokens: float, requests: float, state: ServiceState
) -> float:
    """Mean work of the interval's prompts, of which each computed `tokens` in the mean.

    It grows with the mean of n^2, which the gate's fine buckets show. Without them it is m^2 plus the variance of all
    prompts, as far as it lies within so few requests (1 - 1/k of it) and not between their means already.
    """
    model = state.prefill
    seen = lengths(histograms.get("gate_prompt_tokens"))
    if seen is not None:
        share = tokens / mean_tokens(seen)
        return sum([model.work(n * share) * part for n, part in seen])
    prompts = state.computed_lengths
    variance = moments(prompts).scv * mean_tokens(prompts) ** 2 if prompts else 0.0
    return model.work(tokens) + model.prior.curvature * variance * max(0.0, 1.0 - 1.0 / max(requests, 1.0))


def _computed_tokens(
    counters: Mapping[str, float], histograms: Mapping[str, Histogram], requests: float, state: ServiceState
) -> float | None:
    """Mean prompt tokens per request that were computed there, not found in a cache."""
    for name in ("prompt_tokens_computed_total", "prompt_tokens_total"):
        tokens = counters.get(name)
        if tokens is not None and tokens > 0:
            share = 1.0 if name == "prompt_tokens_computed_total" else 1.0 - state.hit_share
            return tokens * share / requests
    prompts = histograms.get("prompt_tokens")
    return prompts.mean * (1.0 - state.hit_share) if prompts is not None and prompts.mean else None


def _learn_decode(
    state: ServiceState, service: Service, young: frozenset[str]
) -> tuple[DecodeModel, Samples]:
    """The model, and the times that first tokens took in decode workers."""
    now = state.history.now_seconds
    model, ttft = state.decode.at_context(*context(state)), state.decode_ttft
    settled_already = len(model.samples) >= 8
    found = []
    for track, step in state.history.steps(decode_role(service)):
        if service.disaggregated:
            first = step.histograms.get("gate_ttft") or step.histograms.get("ttft")
            if first is not None and first.count > 0 and first.mean:
                ttft = ttft.plus(now, first.mean, first.count)
        if track.uid in young and settled_already:
            continue
        measured = _token_time(step)
        if measured is not None:
            seconds, batch, tokens = measured
            held = None
            if state.sequence_tokens is not None:
                held = _held(step.gauges.get("kv_tokens"), step.gauges.get("running"), model.context_tokens)
            own = model if held is None else model.at_context(held, model.context_scv)
            found.append(own.sample(batch=batch, seconds=seconds, tokens=tokens))
    return model.learn(now, [sample for sample in found if sample is not None]), ttft


def _learn_steps(state: ServiceState, service: Service, young: frozenset[str]) -> MixedModel:
    """From workers that serve both phases, where the engine tells how many steps it took."""
    model, (tokens_held, _) = state.mixed, context(state)
    settled_already, found = model.step is not None, []
    for track, step in state.history.steps(decode_role(service)):
        if track.uid in young and settled_already:
            continue
        steps, gaps = step.histograms.get("step_tokens"), step.histograms.get("inter_token")
        first = step.histograms.get("gate_ttft") or step.histograms.get("ttft")
        if steps is None or gaps is None or first is None or step.seconds <= 0:
            continue
        computed = (
            _computed_tokens(step.counters, step.histograms, first.count, state) if first.count else None
        )
        work = 0.0
        if computed is not None:
            work = first.count * _mean_work(step.histograms, computed, first.count, state)
        found.append(
            model.sample(
                seconds=step.seconds, steps=steps.count, tokens=gaps.count, context_tokens=tokens_held,
                prompt_work=work, running=gaps.total / step.seconds,
            )
        )  # fmt: skip
    return model.learn(state.history.now_seconds, [sample for sample in found if sample is not None])


def context(state: ServiceState) -> tuple[float, float]:
    """(mean, squared coefficient of variation) of the tokens that a sequence in decode holds; (0, 0) where unknown.

    The mean is what the workers' caches hold, where they tell it, else `_expected_context`.
    """
    prompt = mean_tokens(state.lengths) if state.lengths else 0.0
    mean = _expected_context(state)
    scv = moments(state.lengths).scv * (prompt / mean) ** 2 if state.lengths and mean > 0 else 0.0
    return state.sequence_tokens or mean, scv


def _expected_context(state: ServiceState) -> float:
    """Tokens of a sequence's prompt, cached or not, because its KV is read, and of half its output.

    Long answers stay longer, which this leaves out: where some are very long, as those of models that reason, what a
    sequence holds is half as much again.
    """
    return (mean_tokens(state.lengths) if state.lengths else 0.0) + (state.output_tokens or 0.0) / 2


def _sequence_tokens(state: ServiceState, decode: str) -> float | None:
    """Mean tokens that a sequence in decode holds, over all workers; None where they do not tell it.

    While no worker is heard, or none decodes, it is what it was.
    """
    kv_tokens, running = state.history.total(decode, "kv_tokens"), state.history.total(decode, "running")
    if running is None or (running < 1.0 and kv_tokens is not None):
        return state.sequence_tokens
    return _held(kv_tokens, running, _expected_context(state))


def _held(kv_tokens: float | None, running: float | None, expected: float) -> float | None:
    """Tokens per running sequence. A few sequences are only as good as so many: `expected` counts as _FEW of them."""
    if not kv_tokens or not running or running < 1.0:
        return None
    few = _FEW if expected > 0 else 0.0
    return (kv_tokens + few * expected) / (running + few)


def _token_time(step: Step) -> tuple[float, float, float] | None:
    """(seconds per token, sequences beside which the mean token was made, tokens) of one worker's interval.

    Time between events summed up is the time that sequences spent decoding. Divided by the tokens it is the time per
    token, also when one event carries several (speculative decoding); divided by the interval it is N, the mean
    number of sequences. The batch that a token sees is larger than N, and larger than the mean E of a step (told by
    the engine's number of steps), because large batches make more tokens: at most 1 + N for random arrivals (a
    sequence sees itself and, in the mean, N others) and 2 E - 1; at least E. The middle of both is taken.
    """
    gaps = step.histograms.get("inter_token")
    produced = step.counters.get("output_tokens_total", 0.0)
    if gaps is not None and gaps.count >= 5 and gaps.total > 0 and step.seconds > 0:
        first_tokens = step.histograms["ttft"].count if "ttft" in step.histograms else 0.0
        tokens = max(gaps.count, produced - first_tokens)
        steps = step.histograms.get("step_tokens")
        mean = gaps.total / step.seconds
        per_step = max(1.0, mean)
        if steps is not None and steps.count >= 1:
            per_step = max(per_step, min(gaps.count / steps.count, 1.0 + mean))
        batch = (per_step + max(per_step, min(1.0 + mean, 2.0 * per_step - 1.0))) / 2.0
        return gaps.total / tokens, batch, tokens
    per_request = step.histograms.get("tpot")
    if per_request is not None and per_request.count > 0 and per_request.mean:
        batch = step.gauges.get("running") or 1.0
        return per_request.mean, batch, max(produced, per_request.count)
    return None
