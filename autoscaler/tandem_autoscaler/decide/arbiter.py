"""GPUs over several services (ALGORITHM 4.12): who gets them when not all can have what they need.

The order in which workers are granted depends on the claims alone, never on the budget, and the longest affordable
beginning of it is granted. So a larger budget never takes a worker from anybody, and whoever comes later in the order
(a lower priority) never takes one from those before. The price: where the next worker in the order needs more GPUs than
are left, those few stay free although a smaller one, further back, could use them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tandem_autoscaler.decide.decision import Decision, Outcome, Why
from tandem_autoscaler.fleet.service import Key, Service


@dataclass(frozen=True)
class Claim:
    """What one service wants. All maps are by role."""

    key: Key
    priority: int  # the higher one is served first
    wanted: Mapping[str, int]
    minimum: Mapping[str, int]
    gpus: Mapping[str, int]  # of one worker


@dataclass(frozen=True)
class Grant:
    """The workers that a service may have, and whether that is all it wanted."""

    workers: Mapping[str, int] = field(default_factory=dict)
    whole: bool = True


def allocate(claims: Sequence[Claim], budget_gpus: int) -> dict[Key, Grant]:
    """Grants within the budget, except that workers without GPUs cost nothing.

    First every minimum, by priority; then, priority by priority, one worker after the other to the role whose part of
    its wish is the smallest.
    """
    given = {c.key: {role: 0 if c.gpus[role] else c.wanted[role] for role in c.wanted} for c in claims}
    left = budget_gpus
    for claim, role in _order(claims):
        cost = claim.gpus[role]
        if cost > left:
            break
        left -= cost
        given[claim.key][role] += 1
    return {c.key: Grant(given[c.key], all(given[c.key][r] >= c.wanted[r] for r in c.wanted)) for c in claims}


def _order(claims: Sequence[Claim]) -> Iterable[tuple[Claim, str]]:
    """Every wanted worker, in the order of granting."""
    ranked = sorted(claims, key=lambda claim: (-claim.priority, claim.key))
    floor = {(c.key, role): min(c.minimum.get(role, 0), c.wanted[role]) for c in ranked for role in c.wanted}
    for claim in ranked:
        for role in sorted(claim.wanted):
            if claim.gpus[role]:
                yield from ((claim, role) for _ in range(floor[claim.key, role]))
    steps = []
    for claim in ranked:
        for role in sorted(claim.wanted):
            if claim.gpus[role]:
                first = floor[claim.key, role]
                for number in range(first, claim.wanted[role]):
                    filled = number / claim.wanted[role]
                    steps.append(((-claim.priority, filled, claim.key, role, number), claim, role))
    for _, claim, role in sorted(steps, key=lambda step: step[0]):
        yield claim, role


def share_out(
    outcomes: Mapping[Key, tuple[Service, Outcome]], budget_gpus: int, *, reclaim: bool
) -> tuple[dict[Key, Outcome], bool]:
    """(outcomes that the budget affords, whether somebody is short of it).

    GPUs of services that are not sized here, and of draining workers, are taken off the budget first. A worker that
    runs is taken back only with `reclaim`; without it only growth is cut.
    """
    held, claims = 0, []
    for service, outcome in outcomes.values():
        claiming = service.mode == "Auto" and bool(outcome.decisions)
        for pod in service.pods:
            pool = service.pools.get(pod.role)
            held += pool.gpus if pool is not None and (pod.draining or not claiming) else 0
        if claiming:
            claims.append(_claim(service, outcome))
    grants = allocate(claims, max(0, budget_gpus - held))
    cut = {}
    for key, (_, outcome) in outcomes.items():
        grant = grants.get(key)
        decisions = dict(outcome.decisions)
        for role, decision in outcome.decisions.items():
            if grant is not None and grant.workers[role] < decision.target:
                decisions[role] = _cut(decision, grant.workers[role], budget_gpus, reclaim=reclaim)
        cut[key] = replace(outcome, decisions=decisions)
    return cut, any(not grant.whole for grant in grants.values())


def _claim(service: Service, outcome: Outcome) -> Claim:
    wanted = {role: decision.target for role, decision in outcome.decisions.items()}
    minimum = {role: service.pools[role].minimum for role in wanted}
    gpus = {role: service.pools[role].gpus for role in wanted}
    return Claim(service.key, service.priority, wanted, minimum, gpus)


def _cut(decision: Decision, granted: int, budget_gpus: int, *, reclaim: bool) -> Decision:
    target = granted if reclaim else max(granted, min(decision.current, decision.target))
    if target == decision.target:
        return decision
    move = f"{decision.role} {decision.current} -> {target} of {decision.target} wanted"
    if target == decision.current:
        move = f"{decision.role} stays at {target}, {decision.target} wanted"
    text = f"{move}: the fleet's budget of {budget_gpus} GPUs is shared by priority"
    return replace(decision, target=target, why=Why.GPU_BUDGET, message=text)
