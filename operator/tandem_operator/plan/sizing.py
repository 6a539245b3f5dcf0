"""From targets to the actions on workers, over all roles, within the budget.

Order matters: first what must go (finished, surplus), then what may come (`grow`), and last the end of those that
drained and are not wanted elsewhere. A GPU that is still held is not given away, so growth waits for shrinking by
itself.
"""

from tandem_api.durations import parse_seconds
from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.template_hash import template_hash
from tandem_operator.observe.observed import Observed, Quiet
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.routing import listed
from tandem_operator.observe.spec import gpus_per_worker
from tandem_operator.plan.actions import Delete, Flip, Undrain
from tandem_operator.plan.broken import end_broken
from tandem_operator.plan.budget import Budget, gpu_budget
from tandem_operator.plan.children import router_has_turned
from tandem_operator.plan.complete import complete
from tandem_operator.plan.draft import Draft
from tandem_operator.plan.drain import Gone, drain_step, seconds_to_settle
from tandem_operator.plan.grow import grow
from tandem_operator.plan.minima import kept_for_minima
from tandem_operator.plan.rest import rest_left_seconds, resting_places
from tandem_operator.plan.rollout import RolloutStep, rollout_step
from tandem_operator.plan.room import seconds_until_room_is_known
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.succession import new_roles_serve
from tandem_operator.plan.targets import Target
from tandem_operator.plan.victims import victims


def size(observed: Observed, targets: dict[str, Target], *, now: float, settings: Settings) -> Draft:
    """Decide about every worker of the service."""
    spec = observed.spec
    assert spec is not None
    draft = Draft()
    _end_finished(observed, draft, now=now, settings=settings)
    end_broken(observed, draft, now=now, settings=settings)
    budget = gpu_budget(observed)
    unknown_for = seconds_until_room_is_known(observed, now, settings)
    if unknown_for > 0:
        draft.look_again(unknown_for)
    have = {name: sum(1 for pod in observed.pods if pod.role == name and pod.member) for name in targets}
    wanted: dict[str, list[str]] = {}
    for name, target in targets.items():
        free = budget.plus(kept_for_minima(spec, targets, have, beside=name))
        lacking = _shrink_or_roll(observed, spec, target, free, draft, now=now, room_may_come=unknown_for > 0)
        wanted[name] = lacking[resting_places(observed, name, now=now, settings=settings) :]
    _shrink_to_budget(observed, targets, budget, draft, now=now)
    _leave_old_roles(observed, targets, draft, now=now, settings=settings)
    grow(observed, targets, wanted, budget, draft, now=now, settings=settings)
    _end_drained(observed, spec, draft, now=now, settings=settings)
    complete(observed, draft, settings=settings)
    return draft


def _end_finished(observed: Observed, draft: Draft, *, now: float, settings: Settings) -> None:
    """An evicted or failed pod never comes back by itself; its name must be free for the next."""
    for pod in observed.pods:
        if pod.finished and not pod.terminating:
            rest = rest_left_seconds(pod, now, settings)
            if rest > 0:
                draft.look_again(rest)
                continue
            why = pod.reason or pod.phase
            draft.actions.append(Delete(pod.name, pod.uid, pod.role, f"it ended ({why})"))


def _end_drained(
    observed: Observed, spec: InferenceServiceSpec, draft: Draft, *, now: float, settings: Settings
) -> None:
    wanted_still = {action.pod for action in draft.actions if isinstance(action, Undrain | Flip)}
    for pod in observed.pods:
        if not pod.draining or pod.name in wanted_still:
            continue
        step = drain_step(
            pod,
            observed.quiet.get(pod.name, Quiet()),
            now=now,
            deadline_seconds=parse_seconds(spec.drain.deadline),
            settle_seconds=seconds_to_settle(observed, settings),
            settings=settings,
            # Asked of the worker's role, not of the mode: after a change of mode old prefill workers still lend KV.
            hands_over_kv=True,
            listed=listed(pod, observed.routings),
        )
        if isinstance(step, Gone):
            draft.actions.append(Delete(pod.name, pod.uid, pod.role, step.reason))
        else:
            draft.look_again(step.seconds)


def _shrink_or_roll(
    observed: Observed,
    spec: InferenceServiceSpec,
    target: Target,
    free: Budget,
    draft: Draft,
    *,
    now: float,
    room_may_come: bool,
) -> list[str]:
    """Let go of surplus and outdated workers of one role; returns a reason for each worker that it lacks.

    `free`: the budget as it is for one worker more than the target.
    """
    role = spec.roles[target.role]
    wanted_hash = template_hash(observed.name, spec, role)
    members = [pod for pod in observed.pods if pod.role == target.role and pod.member]
    step = rollout_step(
        target.role,
        observed,
        wanted_hash=wanted_hash,
        target=target.replicas,
        room_for_surge=free.admits(gpus_per_worker(role)),
        room_may_come=room_may_come,
    )
    for pod in step.discard:
        draft.actions.append(
            Delete(pod.name, pod.uid, pod.role, "its template is out of date and it never served")
        )
    members = [pod for pod in members if pod not in step.discard]
    # While a rollout is under way one more than the target is meant, not surplus.
    rolling = target.replicas > 0 and any(pod.template_hash != wanted_hash for pod in members)
    surplus = len(members) - target.replicas - (1 if rolling else 0)
    if surplus > 0:
        for pod in victims(members, observed, wanted_hash=wanted_hash)[:surplus]:
            why = f"{target.role} {len(members)} -> {target.replicas}"
            draft.let_go(pod, now=now, reason=why, reversible=True)
    elif step.retire is not None:
        draft.let_go(step.retire, now=now, reason="its template is out of date")
    return _lacking(step, target, members)


def _shrink_to_budget(
    observed: Observed, targets: dict[str, Target], budget: Budget, draft: Draft, *, now: float
) -> None:
    """A budget that was lowered below what runs: let go what is above the minimum, the largest role first."""
    if budget.limit is None:
        return
    gone = draft.leaving()
    members = {
        name: [pod for pod in observed.pods if pod.role == name and pod.member and pod.name not in gone]
        for name in targets
    }
    cost = sum(pod.gpus or 0 for pods in members.values() for pod in pods)
    while cost > budget.limit:
        above = [name for name, pods in members.items() if len(pods) > targets[name].minimum and pods[0].gpus]
        if not above:
            return
        role = max(above, key=lambda name: len(members[name]) - targets[name].minimum)
        pod = victims(members[role], observed, wanted_hash="")[0]
        members[role].remove(pod)
        cost -= pod.gpus or 0
        reason = f"the workers hold {cost + (pod.gpus or 0)} GPUs, gpuBudget is {budget.limit}"
        draft.let_go(pod, now=now, reason=reason, reversible=True)


def _lacking(step: RolloutStep, target: Target, members: list[PodView]) -> list[str]:
    missing = target.replicas - len(members)
    if missing > 0:
        return [f"{target.role} {len(members)} -> {target.replicas}"] * missing
    if step.surge:
        return [f"{target.role} rolls out a new template"]
    return []


def _leave_old_roles(
    observed: Observed, targets: dict[str, Target], draft: Draft, *, now: float, settings: Settings
) -> None:
    """After a change of mode: the old roles' workers go only when the new ones serve and are routed to (D8, D9)."""
    old = [pod for pod in observed.pods if pod.role not in targets and pod.member]
    if (
        not old
        or not new_roles_serve(observed, targets)
        or not router_has_turned(observed, settings, now=now)
    ):
        return
    for pod in old:
        reason = f"the service has no role {pod.role or 'unknown'} any more"
        draft.let_go(pod, now=now, reason=reason)
