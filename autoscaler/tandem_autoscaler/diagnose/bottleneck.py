"""Which limit binds, by what was measured and learnt; each verdict with its evidence."""

from dataclasses import dataclass, replace
from enum import StrEnum

from tandem_api.durations import format_seconds
from tandem_autoscaler.decide.decision import Kept
from tandem_autoscaler.decide.words import rounded
from tandem_autoscaler.diagnose.facts import Facts
from tandem_autoscaler.diagnose.plant import Plant
from tandem_autoscaler.fleet.service import decode_role, prefill_role

# From such a share of busy time on no order and no dealing helps the prompts: there is too much work.
BUSY = 0.85


class Bottleneck(StrEnum):
    PREFILL = "prefill-bound"
    DECODE = "decode-bound"
    KV = "KV-bound"
    QUEUE = "queue-bound"
    COLD_START = "cold-start-bound"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Found:
    """`sentence` names the cause in one line; `evidence` are the numbers behind it."""

    bottleneck: Bottleneck
    sentence: str
    evidence: tuple[str, ...]


def find(facts: Facts, plant: Plant | None) -> Found:
    """The one limit that binds first.

    Decode is looked at before prefill, because a full decode makes first tokens late too (llm-d#1325), and never the
    other way round. Of decode's three limits (time per token, KV cache, the engine's own) the smallest binds: a batch
    that is too slow fills the KV cache as well, and then the cache is not the cause.
    """
    evidence = tuple(_evidence(facts, plant))
    if facts.load.idle:
        return Found(Bottleneck.HEALTHY, "no request in the last minute", evidence)
    missed = [kept for kept in (facts.ttft, facts.tpot) if _missed(facts, kept)]
    waiting = _unserved(facts)
    if not missed and waiting is None and not facts.decode_full:
        if facts.ttft.attainment is None and facts.tpot.attainment is None:
            return Found(Bottleneck.UNKNOWN, "too little was measured to tell", evidence)
        return Found(Bottleneck.HEALTHY, "both promises are kept", evidence)
    starting = _starting(facts, plant)
    if starting is not None:
        return Found(Bottleneck.COLD_START, starting, evidence)
    if waiting is not None:
        return Found(Bottleneck.QUEUE, waiting, evidence)
    in_decode = _of_decode(facts, plant)
    if in_decode is not None:
        return Found(*in_decode, evidence)
    if _missed(facts, facts.ttft):
        return Found(*_of_prefill(facts, plant), evidence)
    return Found(Bottleneck.UNKNOWN, "a promise is missed, and the measurements do not show why", evidence)


def _missed(facts: Facts, kept: Kept) -> bool:
    upper = kept.attainment_upper
    return upper is not None and upper < facts.targets.quantile


# --- the five causes ----------------------------------------------------------------------------------------
def _starting(facts: Facts, plant: Plant | None) -> str | None:
    """Workers that are on their way, or cannot start, would be enough, or nearly."""
    coming = {role: counted.starting for role, counted in facts.counts.items() if counted.starting}
    if not coming:
        return None
    stuck = sum(counted.stuck for counted in facts.counts.values())
    if plant is not None:
        prefill = coming.get(prefill_role(facts.service), 0)
        decode = coming.get(decode_role(facts.service), 0)
        after = replace(
            plant,
            prefill_workers=plant.prefill_workers + prefill,
            decode_workers=plant.decode_workers + decode,
        )
        if after.in_time() < facts.targets.quantile - 0.1 or after.in_time() - plant.in_time() < 0.05:
            return None
    listed = " and ".join(f"{number} {role}" for role, number in coming.items())
    workers = "worker" if sum(coming.values()) == 1 else "workers"
    if stuck:
        return f"{listed} {workers} would be enough, but {stuck} cannot start"
    return (
        f"{listed} {workers} {'is' if workers == 'worker' else 'are'} still starting, which takes "
        + format_seconds(float(f"{facts.cold_start_seconds:.2g}"))
    )


def _unserved(facts: Facts) -> str | None:
    """Requests that no worker has."""
    if facts.load.unserved > 0:
        return f"the router turned {facts.load.unserved:.0f} requests away for want of a worker"
    return None


def _of_decode(facts: Facts, plant: Plant | None) -> tuple[Bottleneck, str] | None:
    """None where decode has room and is in time."""
    load, slow = facts.load, _missed(facts, facts.tpot)
    if not slow and not facts.decode_full:
        return None
    running, ready = load.decode_running or 0.0, max(facts.decode_count.ready, 1)
    each = running / ready
    if plant is None:
        if load.preemptions > 0 or (load.decode_kv or 0.0) > 0.9:
            return Bottleneck.KV, "the KV cache of the decode workers is full"
        return Bottleneck.DECODE, "decode is full or slow"
    at_time = plant.tpot_batch
    if plant.kv_room < min(at_time, plant.slots) and facts.decode_full:
        return Bottleneck.KV, (
            f"a decode worker's KV cache holds {plant.kv_room:.0f} sequences of these lengths, and TPOT would allow "
            f"{min(at_time, plant.slots):.0f}"
        )
    if plant.slots < at_time and facts.decode_full and each >= 0.9 * plant.slots:
        return Bottleneck.QUEUE, (
            f"sequences wait although there is room: the engine takes {plant.slots:.0f} at once, and TPOT would allow "
            f"{min(at_time, plant.kv_room):.0f}"
        )
    allowed = max(at_time, 0.0)
    return Bottleneck.DECODE, (
        f"a decode worker has {each:.0f} sequences at once, and {allowed:.0f} are within TPOT "
        f"{format_seconds(facts.targets.tpot_seconds)}"
    )


def _of_prefill(facts: Facts, plant: Plant | None) -> tuple[Bottleneck, str]:
    """Too much work, or work that waits although the workers have time."""
    need, busy = facts.prefill_need, facts.busy
    if need is not None and not need.feasible:
        return Bottleneck.PREFILL, need.infeasible_because
    if plant is None or busy is None:
        return Bottleneck.PREFILL, "first tokens are late, and decode has room"
    if busy < BUSY:
        otherwise = replace(plant, pooled=True)
        if not plant.pooled and otherwise.late_prefill() <= facts.targets.allowance:
            return Bottleneck.QUEUE, (
                f"prompts wait at one prefill worker while others are free ({busy:.0%} busy): router.policy "
                f"{facts.service.router_policy} deals without looking"
            )
        yielding = replace(plant, demotion=True)
        if not plant.demotion and plant.unequal and yielding.late_prefill() <= facts.targets.allowance:
            return Bottleneck.QUEUE, (
                f"prompts wait behind long ones while the prefill workers are only {busy:.0%} busy"
            )
        if plant.late_prefill() <= facts.targets.allowance:
            return Bottleneck.QUEUE, f"prompts wait although the prefill workers are only {busy:.0%} busy"
    return Bottleneck.PREFILL, f"the prompts keep the prefill workers {busy:.0%} busy"


# --- evidence -----------------------------------------------------------------------------------------------
def _evidence(facts: Facts, plant: Plant | None) -> list[str]:
    found = [
        text for text in (_promise(facts, "TTFT", facts.ttft), _promise(facts, "TPOT", facts.tpot)) if text
    ]
    load, prefill, decode = facts.load, facts.prefill_count, facts.decode_count
    if load.arrivals is not None and plant is not None and plant.prompts is not None:
        found.append(
            f"{rounded(load.arrivals, 3)} requests/s keep {rounded(plant.prefill_load)} of "
            f"{prefill.ready} prefill workers busy"
            + (
                f"; {load.prefill_waiting:.0f} prompts wait or run"
                if load.prefill_waiting is not None
                else ""
            )
        )
    elif load.arrivals is not None:
        found.append(
            f"{rounded(load.arrivals, 3)} requests/s; how long a prefill worker takes for one is not known yet"
        )
    if load.decode_running is not None and decode.ready:
        text = f"{load.decode_running / decode.ready:.1f} sequences per decode worker"
        if plant is not None:
            text += f", of {_rooms(plant)}"
        found.append(text + (f"; {load.decode_waiting:.0f} wait" if load.decode_waiting else ""))
    if load.decode_kv is not None:
        pushed = f", {rounded(load.preemptions)} sequences/s pushed out" if load.preemptions else ""
        found.append(f"KV cache of the fullest decode worker {load.decode_kv:.0%} full{pushed}")
    for role, counted in facts.counts.items():
        if counted.starting or counted.stuck:
            found.append(
                f"{role}: {counted.ready} ready, {counted.starting} starting, {counted.stuck} of them stuck"
            )
    if facts.silent:
        found.append(
            f"{len(facts.silent)} pods did not answer ({next(iter(sorted(set(facts.silent.values()))))})"
        )
    return found


def _promise(facts: Facts, name: str, kept: Kept) -> str | None:
    if kept.attainment is None and kept.attainment_upper is None:
        return None
    share = kept.attainment if kept.attainment is not None else kept.attainment_upper
    assert share is not None
    tail = (
        ""
        if kept.tail_seconds is None
        else (f", p{facts.targets.quantile * 100:g} {format_seconds(float(f'{kept.tail_seconds:.2g}'))}")
    )
    return f"{share:.0%} of the requests within {name} {format_seconds(kept.target_seconds)}{tail}"


def _rooms(plant: Plant) -> str:
    rooms = [
        ("by TPOT", plant.tpot_batch),
        ("by the KV cache", plant.kv_room),
        ("by the engine", plant.slots),
    ]
    known = [f"{max(limit, 0.0):.0f} {why}" for why, limit in rooms if limit < 1e6]
    return ", ".join(known)
