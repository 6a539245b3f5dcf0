"""`decide`: one tick of one service. Pure; time is an argument.

    count and judge the measurements -> learn -> needs by the model -> raise -> gate -> budget -> explain

A pool that someone else sets by hand in Auto mode (`kubectl scale wpool`) is taken as the new current size and
left alone for the confirmation time; after that the rules for needs apply again, both ways.
"""

from dataclasses import replace

from tandem_api.reasons import Condition
from tandem_autoscaler.decide import budget as gpu_budget
from tandem_autoscaler.decide.attainment import of_users
from tandem_autoscaler.decide.decision import Decision, Outcome, Quality, Verdict, Why
from tandem_autoscaler.decide.easing import confirm_seconds, eased, may_ease, spent_later
from tandem_autoscaler.decide.flip import with_flip
from tandem_autoscaler.decide.gate import Conditions, Gated, gate, remember
from tandem_autoscaler.decide.learning import learn
from tandem_autoscaler.decide.load import Load, measure
from tandem_autoscaler.decide.need_colocated import rate_worker
from tandem_autoscaler.decide.need_prefill import cold_start_seconds
from tandem_autoscaler.decide.quality import RoleCount, count, quality
from tandem_autoscaler.decide.reactive import burns, decode_burn, decode_is_full, prefill_burn
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import COLD_START, RoleMemory, ServiceState, changed
from tandem_autoscaler.decide.verdicts import not_sizing, scaling_active, scaling_limited, slo_met
from tandem_autoscaler.decide.wish import Wish, scaled_up_for_silent, wishes
from tandem_autoscaler.fleet.service import Pool, Service, Targets, decode_role, prefill_role
from tandem_autoscaler.signals.source import Snapshot
from tandem_autoscaler.signals.window import History


def decide(
    state: ServiceState,
    service: Service,
    snapshot: Snapshot,
    settings: Settings,
    *,
    wall_seconds: float | None = None,
) -> tuple[ServiceState, Outcome]:
    """The next state and what to do.

    `snapshot.taken_at_seconds` is the time of this tick, by a clock that does not go back. `wall_seconds` is
    compared with the API server's timestamps only; by default it is the same.
    """
    now = snapshot.taken_at_seconds
    since = max(0.0, now - state.history.now_seconds) if state.history.ticks else 0.0
    # The same snapshot twice is no news: nothing is learnt or counted again.
    news = now > state.history.now_seconds or not state.history.ticks
    wall = now if wall_seconds is None else wall_seconds
    if now < state.history.now_seconds:
        now = state.history.now_seconds
        snapshot = replace(snapshot, taken_at_seconds=now)
    history = state.history.advance(service, snapshot)
    counts = {role: count(service, role, snapshot, history) for role in service.pools}
    state = _look(state, history, service, counts, settings, news=news)
    targets = service.targets
    ttft, tpot = (
        of_users(state.history, service, targets, settings.window_seconds) if targets else (None, None)
    )
    if not service.sizes_itself or targets is None:
        # Sizing that begins later begins with a quiet time: what was set meanwhile is not ours to undo at once.
        state = _forget_decisions(state, service, now)
        return state, Outcome({}, ttft, tpot, not_sizing(service, (ttft, tpot)))

    cold = cold_start_seconds(state, service, settings)
    state, load = measure(state, service, settings, cold + settings.reaction_seconds, news=news)
    of_decode = counts.get(decode_role(service))
    full = of_decode is not None and decode_is_full(service, load, of_decode, settings)
    if news:
        state = learn(state, service, settings, wall, decode_bound=full and service.disaggregated)
        if of_decode is not None:
            state = rate_worker(state, service, targets, load, settings, ready=of_decode.ready)
    active = not load.idle or any([c.starting > c.stuck for c in counts.values()])
    active_at = now if active else state.active_at_seconds

    qualities = {r: quality(counts[r], state.memory(r), now, settings) for r in service.pools}
    wished, needs = wishes(state, service, targets, load, counts, full, cold, settings)
    known = [need for need in needs.values() if need is not None]
    hopeless = max([need.infeasible_share for need in known], default=0.0)
    burning = (burns(state, service, targets, settings, hopeless) or 0.0) >= 1.0
    fresh = all(
        qualities[r] in (Quality.FRESH, Quality.EMPTY)
        and (counts[r].ready == 0 or state.memory(r).fresh_ticks >= 2)
        for r in service.pools
    )
    sighted = _sighted(history, service, counts, settings)
    eases = _eases(state, service, targets, settings, hopeless, since)
    decisions: dict[str, Decision] = {}
    memories: dict[str, RoleMemory] = {}
    for role, pool in service.pools.items():
        wish, confirm = wished[role], confirm_seconds(service, role)
        memory = remember(state.memory(role), pool, _kept(wish), now, confirm)
        others = [p for r, p in service.pools.items() if r != role]
        at = Conditions(
            now_seconds=now, quality=qualities[role], all_fresh=fresh, known=wish.known, burning=burning,
            idle=load.idle, idle_for_seconds=now - active_at,
            idle_limit_seconds=max(settings.idle_seconds, 3 * cold), confirm_seconds=confirm,
            sighted_for_seconds=sighted, keep=wish.keep,
            others_serve=any([p.minimum >= 1 or p.replicas > 1 for p in others]),
        )  # fmt: skip
        wish = scaled_up_for_silent(wish, pool, counts[role])
        gated = gate(wish.workers, pool, counts[role], memory, at, settings)
        numbers = {**wish.numbers, COLD_START: cold}
        decisions[role] = _decision(role, pool, wish, gated, numbers)
        memories[role] = memory
    decisions = with_flip(decisions, service, wished, counts, sighted=fresh)
    decisions = _from_zero(decisions, service, load)
    decisions = _together(decisions, service)
    decisions, over_budget = _within_budget(decisions, service)
    noted = {
        role: changed(
            memories[role], current=decision.current, target=decision.target,
            ease=eases[role][0], spent=eases[role][1],
        )
        for role, decision in decisions.items()
    }  # fmt: skip
    state = changed(state, active_at_seconds=active_at, roles={**state.roles, **noted})
    wanted = {role: wish.workers for role, wish in wished.items()}
    conditions: dict[str, Verdict] = {
        Condition.SCALING_ACTIVE: scaling_active(service, snapshot, counts, qualities, state.unmatched_ticks),
        Condition.SCALING_LIMITED: scaling_limited(service, wanted, over_budget),
        Condition.SLO_MET: slo_met(targets, (ttft, tpot), load.idle, known),
    }
    return state, Outcome(decisions, ttft, tpot, conditions)


# --- looking ----------------------------------------------------------------------------------------------
def _look(
    state: ServiceState,
    history: History,
    service: Service,
    counts: dict[str, RoleCount],
    settings: Settings,
    *,
    news: bool,
) -> ServiceState:
    """The newest history, cold starts, how long each role has been heard, and ticks without any series we know."""
    cold = {}
    for pod in service.pods:
        if pod.uid in state.cold_starts:
            cold[pod.uid] = state.cold_starts[pod.uid]
        elif pod.ready_since_seconds is not None:
            cold[pod.uid] = max(0.0, pod.ready_since_seconds - pod.created_at_seconds)
    heard = any([c.heard for c in counts.values()])
    unmatched = not heard and any([c.unmatched for c in counts.values()])
    roles = dict(state.roles)
    for role, counted in counts.items():
        memory, now = state.memory(role), history.now_seconds
        good = counted.ready > 0 and counted.coverage >= settings.coverage
        roles[role] = changed(
            memory,
            fresh_ticks=memory.fresh_ticks + news if good else 0,
            heard_at_seconds=now if good else memory.heard_at_seconds,
            ready=counted.ready,
            grew_at_seconds=now if counted.ready > memory.ready else memory.grew_at_seconds,
        )
    return changed(
        state,
        history=history,
        cold_starts=cold,
        unmatched_ticks=state.unmatched_ticks + news if unmatched else 0,
        roles=roles,
    )


def _kept(wish: Wish) -> int | None:
    """What a later step down is held against."""
    return None if wish.workers is None else max(wish.workers, wish.keep)


def _eases(
    state: ServiceState, service: Service, targets: Targets, settings: Settings, hopeless: float, since: float
) -> dict[str, tuple[float, float]]:
    """How far each role's demand quantile may now fall, `since` seconds after the last tick, and what it has spent."""
    found = dict.fromkeys(service.pools, (0.0, 0.0))
    for role in service.pools:
        if not may_ease(service, role, contexts_told=state.sequence_tokens is not None):
            continue
        if role == prefill_role(service):
            slowly = prefill_burn(state, service, targets, settings, hopeless, settings.long_window_seconds)
        else:
            slowly = decode_burn(state, service, targets, settings.long_window_seconds)
        memory = state.memory(role)
        spent = spent_later(memory.spent, slowly, since)
        found[role] = eased(memory.ease, slowly, since, spent=spent), spent
    return found


def _sighted(history: History, service: Service, counts: dict[str, RoleCount], settings: Settings) -> float:
    """Seconds of the last window that the measurements of every role with ready workers truly cover."""
    window = settings.window_seconds
    return min([history.rates(r, window).seconds for r in service.pools if counts[r].ready], default=window)


def _forget_decisions(state: ServiceState, service: Service, now: float) -> ServiceState:
    for role in service.pools:
        memory = changed(state.memory(role), needs=(), current=None, target=None, quiet_since_seconds=now)
        state = state.with_memory(role, memory)
    return state


# --- deciding ---------------------------------------------------------------------------------------------
def _decision(role: str, pool: Pool, wish: Wish, gated: Gated, numbers: dict[str, float]) -> Decision:
    why = gated.why or (wish.why if gated.target > pool.replicas else Why.STEADY)
    if (
        gated.target == pool.replicas
        and gated.why is None
        and wish.why in (Why.DECODE_BOUND, Why.WAITING_FOR_DATA)
    ):
        why = wish.why
    move = (
        f"{role} {pool.replicas} -> {gated.target}"
        if gated.target != pool.replicas
        else f"{role} stays at {gated.target}"
    )
    reasons = [text for text in (gated.because, wish.because) if text]
    if wish.workers is not None and wish.workers > pool.maximum:
        reasons.insert(0, f"{wish.workers} are needed, maxReplicas is {pool.maximum}")
    return Decision(role, pool.replicas, gated.target, why, f"{move}: {'; '.join(reasons)}", numbers)


def _from_zero(decisions: dict[str, Decision], service: Service, load: Load) -> dict[str, Decision]:
    """A request at the router and no worker: one of each role at once."""
    if not (load.unserved or load.router_running):
        return decisions
    demand = f"{load.unserved or load.router_running:.0f} requests at the router found no worker"
    raised = {}
    for role, decision in decisions.items():
        pool = service.pools[role]
        if decision.target == 0 and pool.maximum >= 1:
            message = f"{role} {decision.current} -> 1: {demand}"
            decision = replace(decision, target=1, why=Why.FROM_ZERO, message=message)
        raised[role] = decision
    return raised


def _together(decisions: dict[str, Decision], service: Service) -> dict[str, Decision]:
    """Both roles serve or none does: a request needs both."""
    if not any(d.target >= 1 for d in decisions.values()):
        return {
            role: replace(d, why=Why.TO_ZERO, message=f"{role} {d.current} -> 0: no request for a long time")
            if d.changes else d
            for role, d in decisions.items()
        }  # fmt: skip
    joined = {}
    for role, d in decisions.items():
        if d.target == 0 and service.pools[role].maximum >= 1:
            verb = f"{role} stays at 1" if d.current == 1 else f"{role} {d.current} -> 1"
            d = replace(d, target=1, why=Why.FROM_ZERO if d.current == 0 else Why.STEADY,
                        message=f"{verb}: the other role has workers, and a request needs both")  # fmt: skip
        joined[role] = d
    return joined


def _within_budget(
    decisions: dict[str, Decision], service: Service
) -> tuple[dict[str, Decision], str | None]:
    """The decisions that the GPU budget affords, and a sentence when it took something away."""
    if service.gpu_budget is None or not decisions:
        return decisions, None
    desired = {role: d.target for role, d in decisions.items()}
    gpus = {role: service.pools[role].gpus for role in decisions}
    minimum = {role: service.pools[role].minimum for role in decisions}
    allowed = gpu_budget.clamp(desired, gpus, minimum, service.gpu_budget)
    if allowed is None:
        text = f"even the minimum of each role needs more than gpuBudget {service.gpu_budget}"
        held = {
            role: replace(
                d, target=d.current, why=Why.GPU_BUDGET, message=f"{role} stays at {d.current}: {text}"
            )
            for role, d in decisions.items()
        }
        return held, text
    cut: dict[str, Decision] = {}
    for role, d in decisions.items():
        if allowed[role] < d.target:
            text = f"{role} {d.current} -> {allowed[role]} of {d.target} wanted: gpuBudget is {service.gpu_budget}"
            if allowed[role] == d.current:
                text = f"{role} stays at {d.current}, {d.target} wanted: gpuBudget is {service.gpu_budget}"
            d = replace(d, target=allowed[role], why=Why.GPU_BUDGET, message=text)
        cut[role] = d
    lost = [
        f"{role} wants {desired[role]}, gets {allowed[role]}"
        for role in desired
        if allowed[role] < desired[role]
    ]
    return cut, f"gpuBudget {service.gpu_budget}: {', '.join(lost)}" if lost else None
