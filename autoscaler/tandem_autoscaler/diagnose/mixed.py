"""What a service's measurements say of its workers' steps, and the questions that follow: chunks, and which mode.

In a colocated worker the times are mixed; `model/unmixed.py` tells them apart.
"""

import math
from dataclasses import replace

from tandem_autoscaler.decide.need_decode import kv_per_sequence
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.machine import Machine
from tandem_autoscaler.diagnose.plant import Plant
from tandem_autoscaler.fleet.service import decode_role, prefill_role
from tandem_autoscaler.model.colocated import Promise, Traffic, Worker
from tandem_autoscaler.model.mixed_step import Chunking, MixedStep
from tandem_autoscaler.model.unmixed import split, unmixed


def traffic_of(facts: Facts) -> Traffic | None:
    """None while something of it is unknown, or there is none."""
    load = facts.load
    if not load.arrivals or not facts.lengths or not facts.output_tokens:
        return None
    return Traffic(load.arrivals, facts.lengths, facts.output_tokens, load.arrival_scv)


def promise_of(facts: Facts) -> Promise:
    return Promise(facts.targets.ttft_seconds, facts.targets.tpot_seconds, facts.targets.allowance)


def colocated_worker(facts: Facts, plant: Plant, traffic: Traffic) -> Worker | None:
    """The worker of a colocated pool; None while its times are not learnt.

    By the engine's count of steps where it tells it: times per prompt and per token are only told apart where the load
    varied.
    """
    prefill, decode, running = facts.prefill, facts.decode, facts.load.decode_running
    ready = facts.decode_count.ready
    context = traffic.context_tokens
    if facts.step is not None:
        return Worker(facts.step, _kv_tokens(facts, context), plant.slots)
    if prefill is None or not decode.known or running is None or not ready:
        return None
    return unmixed(
        prefill, decode, traffic, batch=running / ready, chunking=facts.chunking or Chunking(),
        kv_tokens=_kv_tokens(facts, context), max_sequences=plant.slots,
    )  # fmt: skip


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
    context = traffic.context_tokens
    base, slope = decode.line_now
    d1, d2 = split(facts.decode, slope, context)
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


def _kv_tokens(facts: Facts, context: float) -> float:
    """Tokens that one worker's KV cache holds; infinite while too little is in use to tell and no GPU is named."""
    share = kv_per_sequence(facts.load, facts.decode_count.ready)
    if share is not None:
        return context / share
    machine = facts.machines.get(decode_role(facts.service))
    return float(machine.kv_tokens) if machine is not None else math.inf
