"""What a service's measurements say of its workers' steps, and the questions that follow: chunks, and which mode.

In a colocated worker the times are mixed. Prompts do r E[P] of each second, and r = B / (O tau) answers are begun
per second, so what is learnt as tau = D0 + D1 B and as S(n) = A + B' (n + k n^2) has

    D0 = d0,   D1 = d1 + d2 c + E[P] / O,   A = latency + about 1.5 tau,   B' = b + tau / cap

because a prompt of n tokens waits for n / cap steps, cap being what one may have of a step.
"""

import math
from dataclasses import replace

from tandem_api.inference_service import EngineTuning, InferenceServiceSpec
from tandem_api.sizing import Gpu
from tandem_api.sizing.spec import WorkerSpec
from tandem_autoscaler.decide.need_decode import kv_per_sequence
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.machine import Machine
from tandem_autoscaler.diagnose.plant import Plant
from tandem_autoscaler.fleet.service import decode_role, prefill_role
from tandem_autoscaler.model.colocated import Promise, Traffic, Worker
from tandem_autoscaler.model.mixed_step import DEFAULT_BUDGET, Chunking, MixedStep

# vLLM's budgets by the GPU's memory, A100s excepted (engine/arg_utils.py, 0.32): (GiB at least, tokens).
_BUDGETS = ((160, 16384), (70, 8192))
# However the measurements fall out: something of a prompt's time is its own, something of a sequence's its own.
_LEAST_SHARE = 0.05


def chunking_of(spec: InferenceServiceSpec, worker: WorkerSpec) -> Chunking:
    """Of one role, with vLLM's defaults where the manifest says nothing."""
    over = spec.roles[worker.role].engine or EngineTuning()
    set_here = over.chunked_prefill or spec.engine.chunked_prefill
    budget = default_budget(worker.gpu)
    if set_here is None:
        return Chunking(budget)
    if not set_here.enabled:
        return Chunking(set_here.max_batched_tokens or worker.max_model_len or budget, 0, enabled=False)
    return Chunking(set_here.max_batched_tokens or budget, set_here.long_prompt_threshold or 0)


def default_budget(gpu: Gpu | None) -> int:
    """What vLLM takes where nobody says anything; of an unknown GPU the smaller one."""
    if gpu is None or gpu.name.startswith("A100"):
        return DEFAULT_BUDGET
    return next((tokens for gib, tokens in _BUDGETS if gpu.memory_bytes >= gib * 2**30), DEFAULT_BUDGET)


def traffic_of(facts: Facts) -> Traffic | None:
    """None while something of it is unknown, or there is none."""
    load = facts.load
    if not load.arrivals or not facts.lengths or not facts.output_tokens:
        return None
    return Traffic(load.arrivals, facts.lengths, facts.output_tokens, load.arrival_scv)


def promise_of(facts: Facts) -> Promise:
    return Promise(facts.targets.ttft_seconds, facts.targets.tpot_seconds, facts.targets.allowance)


def colocated_worker(facts: Facts, plant: Plant, traffic: Traffic) -> Worker | None:
    """The worker of a colocated pool; None while its times are not learnt."""
    prefill, decode, running = facts.prefill, facts.decode, facts.load.decode_running
    ready = facts.decode_count.ready
    if prefill is None or not decode.known or running is None or not ready:
        return None
    base, slope = decode.line_now
    batch = max(1.0, running / ready)
    tau = base + slope * batch
    chunking = facts.chunking or Chunking()
    cap = float(chunking.threshold or chunking.budget) if chunking.enabled else math.inf
    alone, learnt = prefill.line
    per_token = max(_LEAST_SHARE * learnt, learnt - tau / cap)
    own = sum(per_token * prefill.work(tokens) * share for tokens, share in traffic.prompts)
    each = max(_LEAST_SHARE * slope, slope - own / traffic.output_tokens)
    # How d1 and d2 share what is left of the slope is the learnt model's own proportion.
    context = traffic.prompt_tokens + traffic.output_tokens / 2.0
    d1, d2 = _split(facts, each, context)
    step = MixedStep(base, d1, d2, per_token, per_token * prefill.prior.curvature)
    return Worker(step, _kv_tokens(facts, context), plant.slots, max(0.0, alone - 1.5 * tau))


def apart_workers(facts: Facts, plant: Plant, traffic: Traffic) -> tuple[Worker, Worker] | None:
    """(prefill, decode) of a disaggregated service, whose times are not mixed."""
    prefill, decode = facts.prefill, facts.decode
    if (
        prefill is None
        or not decode.known
        or prefill.base_seconds is None
        or prefill.seconds_per_token is None
    ):
        return None
    context = traffic.prompt_tokens + traffic.output_tokens / 2.0
    base, slope = decode.line_now
    d1, d2 = _split(facts, slope, context)
    b = prefill.seconds_per_token
    step = MixedStep(base, d1, d2, b, b * prefill.prior.curvature)
    worker = Worker(step, _kv_tokens(facts, context), plant.slots, max(0.0, prefill.base_seconds - base))
    return replace(worker, kv_tokens=math.inf), worker


def same_hardware(facts: Facts) -> bool:
    """May a worker of either role be thought of as one that does both? Unknown is no."""
    service = facts.service
    if not service.disaggregated or service.flips:
        return True
    machines = [facts.machines.get(role) for role in (prefill_role(service), decode_role(service))]
    return machines[0] is not None and machines[0] == machines[1]


def worker_by_data_sheet(machine: Machine, max_sequences: float) -> Worker:
    """Before anything was measured."""
    prior = machine.prior
    (a, b, c), (d0, d1, d2) = prior.prefill, prior.decode
    return Worker(MixedStep(d0, d1, d2, b, c), machine.kv_tokens, max_sequences, max(0.0, a - d0))


def _split(facts: Facts, slope: float, context: float) -> tuple[float, float]:
    """(per sequence, per token of context) that make `slope` at this context."""
    model = facts.decode
    per_context = model.seconds_per_context_token
    if per_context is None or not model.seconds_per_sequence:
        weight = model.prior.context_weight
    else:
        weight = per_context / model.seconds_per_sequence
    per_sequence = slope / (1.0 + weight * context)
    return per_sequence, per_sequence * weight


def _kv_tokens(facts: Facts, context: float) -> float:
    """Tokens that one worker's KV cache holds; infinite while too little is in use to tell and no GPU is named."""
    share = kv_per_sequence(facts.load, facts.decode_count.ready)
    if share is not None:
        return context / share
    machine = facts.machines.get(decode_role(facts.service))
    return float(machine.kv_tokens) if machine is not None else math.inf
