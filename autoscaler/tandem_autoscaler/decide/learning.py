"""Measurements of single workers -> the models."""

from dataclasses import replace

from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import ServiceState
from tandem_autoscaler.fleet.service import Service, decode_role, prefill_role
from tandem_autoscaler.model.prefill import ENOUGH_REQUESTS, service_seconds
from tandem_autoscaler.model.prompt_lengths import mean_tokens, scv_of_lengths, shortened
from tandem_autoscaler.model.queueing import POOLED_POLICIES, moments
from tandem_autoscaler.signals.track import Step


def learn(
    state: ServiceState, service: Service, settings: Settings, wall_seconds: float, *, decode_bound: bool
) -> ServiceState:
    """The state with models that have seen this tick.

    Workers that became ready less than two minutes ago teach nothing (their first passes compile and warm up;
    ai-dynamo/dynamo#12430), unless nothing is known yet: then they are all there is. While prefill is held up
    by a full decode its times are not its own, so it learns nothing either.
    """
    now = state.history.now_seconds
    young = {
        pod.uid
        for pod in service.pods
        if pod.ready_since_seconds is None or wall_seconds - pod.ready_since_seconds < settings.young_seconds
    }
    if not decode_bound:
        state = _learn_prefill(state, service, young, now)
    return _learn_decode(state, service, young, now)


def _learn_prefill(state: ServiceState, service: Service, young: set[str], now: float) -> ServiceState:
    model = state.prefill
    scv = 0.0
    if state.lengths:
        scv = moments(model.distribution(shortened(state.lengths, 1.0 - state.hit_share))).scv
    settled_already = model.requests >= ENOUGH_REQUESTS
    # Where the router deals blindly, each worker is a queue of its own.
    workers = sum(pod.ready for pod in service.workers(prefill_role(service)))
    workers = max(1, workers) if service.router_policy in POOLED_POLICIES else 1
    length_scv = scv_of_lengths(state.lengths) if state.lengths else 0.0
    found = []
    for track, step in state.history.steps(prefill_role(service)):
        if track.uid in young and settled_already:
            continue
        measured = _sojourn(step)
        if measured is None or step.seconds <= 0:
            continue
        sojourn, requests = measured
        tokens = _computed_tokens(step, requests, state)
        if tokens is None:
            continue
        busy = step.counters.get("gate_prefill_busy_seconds_total")
        if busy is not None:
            # The utilisation law: whatever the order of service, work done is busy time.
            seconds: float | None = busy / requests
        else:
            seconds = service_seconds(sojourn, requests / step.seconds, scv, workers=workers)
        found.append(model.sample(seconds=seconds, tokens=tokens, requests=requests, length_scv=length_scv))
    return replace(state, prefill=model.learn(now, [sample for sample in found if sample is not None]))


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


def _computed_tokens(step: Step, requests: float, state: ServiceState) -> float | None:
    """Mean prompt tokens per request that were computed there, not found in a cache."""
    for name in ("prompt_tokens_computed_total", "prompt_tokens_total"):
        tokens = step.counters.get(name)
        if tokens is not None and tokens > 0:
            share = 1.0 if name == "prompt_tokens_computed_total" else 1.0 - state.hit_share
            return tokens * share / requests
    prompts = step.histograms.get("prompt_tokens")
    return prompts.mean * (1.0 - state.hit_share) if prompts is not None and prompts.mean else None


def _learn_decode(state: ServiceState, service: Service, young: set[str], now: float) -> ServiceState:
    model, ttft = state.decode.at_context(context_tokens(state)), state.decode_ttft
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
            found.append(model.sample(batch=batch, seconds=seconds, tokens=tokens))
    model = model.learn(now, [sample for sample in found if sample is not None])
    return replace(state, decode=model, decode_ttft=ttft)


def context_tokens(state: ServiceState) -> float:
    """Tokens that a sequence in decode holds in the mean: its prompt and half of its output; 0 where unknown.

    Cached or not, the prompt's KV is read. Long answers stay longer, which this leaves out.
    """
    return (mean_tokens(state.lengths) if state.lengths else 0.0) + (state.output_tokens or 0.0) / 2


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
