"""What could be changed, and what the models predict of it. A fix that they cannot judge has no prediction."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from tandem_api import names
from tandem_autoscaler.decide.need_decode import staffed
from tandem_autoscaler.diagnose import machine as machines
from tandem_autoscaler.diagnose.bottleneck import Bottleneck
from tandem_autoscaler.diagnose.break_even import Compared
from tandem_autoscaler.diagnose.chunking import Tuned
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.machine import Change, Machine
from tandem_autoscaler.diagnose.plant import Plant
from tandem_autoscaler.fleet.service import decode_role, prefill_role
from tandem_autoscaler.model.mixed_step import Chunking
from tandem_autoscaler.model.queueing import smallest_pool

# What just suffices for the load as it was measured does not for the next minute's.
_MARGIN = 1.1
# By so much more than promised a fix must be predicted to keep, to be taken for enough.
_CLEARLY = 0.02


class Kind(StrEnum):
    MORE_PREFILL = "more prefill workers"
    MORE_DECODE = "more decode workers"
    READY_BEFOREHAND = "workers that are ready beforehand"
    LATE_DEMOTION = "late demotion"
    ROUTING = "routing by load"
    MAX_SEQUENCES = "larger batches"
    FP8_WEIGHTS = "weights in fp8"
    FOUR_BIT_WEIGHTS = "weights in 4 bits"
    FP8_KV = "KV cache in fp8"
    FASTER_GPU = "a faster GPU"
    MORE_BANDWIDTH = "a GPU with more bandwidth"
    MORE_GPUS_PER_WORKER = "more GPUs per worker"
    PREFIX_CACHING = "prefix caching"
    CHUNKING = "smaller chunks of long prompts"
    DISAGGREGATE = "prefill and decode apart"
    SPECULATIVE = "speculative decoding"
    FASTER_START = "a faster start"
    MORE_HEADROOM = "more headroom"


@dataclass(frozen=True)
class Fix:
    """`in_time`: predicted share of requests that keep both promises; None: the models cannot tell.

    `gpus`: more than are used now; `exchanged`: of another kind instead of those. `replicas`: the number that a role
    should have, where that is the fix.
    """

    kind: Kind
    change: str  # what to write where
    in_time: float | None
    gpus: int = 0
    exchanged: int = 0
    replicas: int | None = None


def fixes(
    found: Bottleneck,
    facts: Facts,
    plant: Plant | None,
    tuned: Tuned | None = None,
    compared: Compared | None = None,
) -> tuple[Fix, ...]:
    """Those that clearly suffice, the cheapest first; then the others, what helps most first.

    What cannot be predicted comes last, and what the models expect to change nothing is left out.
    """
    makers: dict[Bottleneck, Callable[[Facts, Plant], Iterator[Fix]]] = {
        Bottleneck.PREFILL: _of_prefill,
        Bottleneck.DECODE: _of_decode,
        Bottleneck.KV: _of_kv,
        Bottleneck.QUEUE: _of_queue,
        Bottleneck.COLD_START: _of_cold_start,
    }
    if plant is None or found not in makers:
        return ()
    plant = plant.loaded(_MARGIN)
    now = plant.in_time()
    offered = [*makers[found](facts, plant), *_of_mixing(found, facts, now, tuned, compared)]
    made = [fix for fix in offered if fix.in_time is None or fix.in_time > now + 0.01]
    enough = facts.targets.quantile + _CLEARLY

    def rank(fix: Fix) -> tuple[float, ...]:
        cost = fix.gpus + fix.exchanged
        # More workers of the same kind restart none of those that serve.
        effort = 0 if fix.replicas is not None else 1 if fix.exchanged else 2
        if fix.in_time is None:
            return (2,)
        return (0, cost, effort, -fix.in_time) if fix.in_time >= enough else (1, -fix.in_time, cost, effort)

    return tuple(sorted(made, key=rank))


def _of_prefill(facts: Facts, plant: Plant) -> Iterator[Fix]:
    feasible = facts.prefill_need is None or facts.prefill_need.feasible
    if feasible:
        yield from _more_prefill(facts, plant)
    yield from _order(facts, plant)
    role = prefill_role(facts.service)
    yield from _other_machine(facts, plant, role, Kind.FP8_WEIGHTS, machines.in_fp8, "quantization: fp8")
    yield from _other_machine(
        facts, plant, role, Kind.FASTER_GPU, machines.with_more_flops, "{gpu} instead of {old}"
    )
    yield from _wider(facts, plant, role)
    yield Fix(Kind.PREFIX_CACHING, "engine.prefixCaching: true, where prompts share their beginning", None)


def _of_decode(facts: Facts, plant: Plant) -> Iterator[Fix]:
    yield from _more_decode(facts, plant)
    role = decode_role(facts.service)
    yield from _smaller_weights(facts, plant, role)
    yield from _smaller_kv(facts, plant, role)
    yield from _faster_reads(facts, plant, role)
    yield Fix(Kind.SPECULATIVE, "a draft in engine.extraArgs, where answers are predictable", None)


def _of_kv(facts: Facts, plant: Plant) -> Iterator[Fix]:
    role = decode_role(facts.service)
    known = facts.machines.get(role)
    if known is None:
        # Half the bytes for each token, on any engine that has it; its speed is left as it is.
        change = Change(kv_room=2.0)
        yield Fix(Kind.FP8_KV, "engine.kvCacheDtype: fp8", plant.changed(decode=change).in_time())
    yield from _smaller_kv(facts, plant, role)
    yield from _more_decode(facts, plant)
    yield from _smaller_weights(facts, plant, role)
    yield from _faster_reads(facts, plant, role)


def _of_queue(facts: Facts, plant: Plant) -> Iterator[Fix]:
    largest = min(plant.tpot_batch, plant.kv_room)
    if largest > plant.slots * 1.1:
        sequences = int(min(largest, 1e5))
        wider = replace(plant, slots=float(sequences))
        yield Fix(Kind.MAX_SEQUENCES, f"engine.maxSequences: {sequences}", wider.in_time())
        yield from _more_decode(facts, plant)
    yield from _order(facts, plant)
    yield from _more_prefill(facts, plant)


def _of_cold_start(facts: Facts, plant: Plant) -> Iterator[Fix]:
    prefill, decode = prefill_role(facts.service), decode_role(facts.service)
    wanted = {role: counted.ready + counted.starting for role, counted in facts.counts.items()}
    ready = replace(plant, prefill_workers=wanted[prefill], decode_workers=wanted[decode])
    fields = " and ".join(
        f"{role}.minReplicas: {wanted[role]}" for role, counted in facts.counts.items() if counted.starting
    )
    stuck = sum(counted.stuck for counted in facts.counts.values())
    if stuck:
        yield Fix(
            Kind.FASTER_START,
            "`kubectl tandem status` names what keeps the workers from starting",
            ready.in_time(),
        )
    gpus = sum(counted.starting * facts.service.pools[role].gpus for role, counted in facts.counts.items())
    yield Fix(
        Kind.READY_BEFOREHAND, f"{fields}, before the load comes", ready.in_time(), 0 if stuck else gpus
    )
    yield from _order(facts, plant)
    yield Fix(Kind.MORE_HEADROOM, "autoscaling.demandPercentile: 95, or headroomPercent", None)
    if not stuck:
        yield Fix(
            Kind.FASTER_START,
            "images and weights on the nodes beforehand",
            None,
        )


# --- single fixes -------------------------------------------------------------------------------------------
def _more_prefill(facts: Facts, plant: Plant) -> Iterator[Fix]:
    role = prefill_role(facts.service)
    if plant.prompts is None:
        return
    sized = smallest_pool(
        plant.arrivals, plant.prompts, plant.ttft_seconds, plant.allowance,
        allowed=facts.settings.violation_share * plant.allowance, arrival_scv=plant.arrival_scv, pooled=plant.pooled,
        least=plant.prefill_workers + 1,
    )  # fmt: skip
    need = facts.prefill_need.workers if facts.prefill_need is not None else None
    yield _grown(facts, plant, Kind.MORE_PREFILL, role, max(sized.workers, need or 0))


def _more_decode(facts: Facts, plant: Plant) -> Iterator[Fix]:
    role = decode_role(facts.service)
    if not plant.decode.known:
        return
    limit = max(
        1.0, min(plant.room, facts.decode.largest_batch(facts.settings.safety * plant.tpot_seconds, math.inf))
    )
    enough = staffed(
        plant.tokens_per_second, plant.decode, limit, facts.settings.fluctuation, even=facts.decode_even
    )
    need = facts.decode_need.workers if facts.decode_need is not None else None
    yield _grown(facts, plant, Kind.MORE_DECODE, role, max(enough, need or 0, plant.decode_workers + 1))


def _grown(facts: Facts, plant: Plant, kind: Kind, role: str, workers: int) -> Fix:
    pool = facts.service.pools[role]
    more = workers - facts.counts[role].ready
    if not facts.service.disaggregated:
        after = replace(plant, prefill_workers=workers, decode_workers=workers)
    elif role == names.PREFILL:
        after = replace(plant, prefill_workers=workers)
    else:
        after = replace(plant, decode_workers=workers)
    change = f"{role} workers {facts.counts[role].ready} -> {workers}"
    if workers > pool.maximum:
        change += f": {role}.maxReplicas is {pool.maximum}"
    return Fix(kind, change, after.in_time(), more * pool.gpus, replicas=workers)


def _order(facts: Facts, plant: Plant) -> Iterator[Fix]:
    """What only changes who waits for whom."""
    if not plant.pooled:
        better = replace(plant, pooled=True)
        yield Fix(Kind.ROUTING, "router.policy: power_of_two", better.in_time())
    if not plant.demotion and plant.prefill_workers >= facts.settings.fewest_for_boldness:
        better = replace(plant, demotion=True)
        yield Fix(Kind.LATE_DEMOTION, "engine.lateDemotion: true", better.in_time())


def _other_machine(
    facts: Facts, plant: Plant, role: str, kind: Kind, make: Callable[[Machine], Machine | None], text: str
) -> Iterator[Fix]:
    """The same number of other workers; nothing where the worker is not known."""
    old = facts.machines.get(role)
    new = make(old) if old is not None else None
    if old is None or new is None:
        return
    change = machines.change(old, new, prompt_tokens=facts.prompt_tokens or 1000.0)
    if change is None:
        return
    prefill = change if role == prefill_role(facts.service) else None
    decode = change if role == decode_role(facts.service) else None
    words = text.format(gpu=new.gpu.name, old=old.gpu.name)
    field = (
        f"{role}.engine.{words}"
        if words.startswith("quantization")
        else f"{role}: {words}"
        if "{gpu}" in text
        else words
    )
    swapped = facts.counts[role].ready * facts.service.pools[role].gpus if new.gpu != old.gpu else 0
    yield Fix(kind, field, plant.changed(prefill, decode).in_time(), exchanged=swapped)


def _smaller_weights(facts: Facts, plant: Plant, role: str) -> Iterator[Fix]:
    yield from _other_machine(facts, plant, role, Kind.FP8_WEIGHTS, machines.in_fp8, "quantization: fp8")
    yield from _other_machine(
        facts,
        plant,
        role,
        Kind.FOUR_BIT_WEIGHTS,
        machines.in_four_bits,
        "quantization: awq, with a model that has it",
    )


def _smaller_kv(facts: Facts, plant: Plant, role: str) -> Iterator[Fix]:
    yield from _other_machine(
        facts, plant, role, Kind.FP8_KV, machines.with_small_kv, "engine.kvCacheDtype: fp8"
    )


def _faster_reads(facts: Facts, plant: Plant, role: str) -> Iterator[Fix]:
    yield from _other_machine(
        facts, plant, role, Kind.MORE_BANDWIDTH, machines.with_more_bandwidth, "{gpu} instead of {old}"
    )
    yield from _wider(facts, plant, role)


def _wider(facts: Facts, plant: Plant, role: str) -> Iterator[Fix]:
    """Twice the GPUs for each worker."""
    pool, known = facts.service.pools[role], facts.machines.get(role)
    if known is None or known.gpus >= 8:
        return
    gpus = facts.counts[role].ready * pool.gpus
    for fix in _other_machine(
        facts, plant, role, Kind.MORE_GPUS_PER_WORKER, lambda one: replace(one, gpus=2 * one.gpus), ""
    ):
        yield replace(fix, change=f"{role}.gpus: {2 * known.gpus}", gpus=gpus)


def _of_mixing(
    found: Bottleneck, facts: Facts, now: float, tuned: Tuned | None, compared: Compared | None
) -> Iterator[Fix]:
    """Of a Colocated pool, whose prompts and answers share their steps.

    Its own model (model/colocated.py) says what these are worth; where the decision's models are more hopeful of things
    as they are (`now`), the gain is what counts.
    """
    if facts.service.disaggregated or found not in (Bottleneck.PREFILL, Bottleneck.DECODE, Bottleneck.QUEUE):
        return
    if tuned is None:
        yield Fix(
            Kind.CHUNKING, "engine.chunkedPrefill.longPromptThreshold: half of maxBatchedTokens, for short prompts "
            "behind long ones", None,
        )  # fmt: skip
    elif tuned.worth_a_restart:
        gain = tuned.best.predicted.in_time - tuned.now.predicted.in_time
        after = max(tuned.best.predicted.in_time, min(1.0, now + gain))
        yield Fix(Kind.CHUNKING, f"engine.chunkedPrefill: {written(tuned.best.chunking)}", after)
    if compared is None:
        yield Fix(
            Kind.DISAGGREGATE,
            "mode: Disaggregated, so that prompts and streams do not hold each other up",
            None,
        )
    elif compared.better == "Disaggregated" and compared.disaggregated is not None:
        used = sum(counted.ready * facts.service.pools[role].gpus for role, counted in facts.counts.items())
        yield Fix(
            Kind.DISAGGREGATE,
            f"mode: Disaggregated with {compared.prefill} prefill and {compared.decode} decode workers",
            # Both roles are sized for the allowance.
            max(now, facts.targets.quantile),
            gpus=max(0, compared.disaggregated - used),
        )


def written(chunking: Chunking) -> str:
    """As it stands in a manifest."""
    if not chunking.enabled:
        return "{enabled: false}"
    threshold = f", longPromptThreshold: {chunking.threshold}" if chunking.threshold else ""
    return f"{{maxBatchedTokens: {chunking.budget}{threshold}}}"
