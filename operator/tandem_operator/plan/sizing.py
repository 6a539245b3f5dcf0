"""From targets to Create, Drain, Undrain and Delete, over all roles, within the budget.

Order matters: first what must go (finished, surplus), then what may come, and last the end of those that drained and
are not wanted back. A GPU that is still held is not given away, so growth waits for shrinking by itself.
"""

from dataclasses import dataclass, field

from tandem_api.durations import parse_seconds
from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.template_hash import template_hash
from tandem_operator.build.worker_pod import worker_pod
from tandem_operator.observe.observed import Observed, Quiet
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.spec import gpus_per_worker
from tandem_operator.plan.actions import Action, Create, Delete, Drain, Undrain
from tandem_operator.plan.budget import Budget, gpu_budget, lasting_budget
from tandem_operator.plan.children import router_has_turned
from tandem_operator.plan.drain import Gone, drain_step
from tandem_operator.plan.ordinals import free_ordinals
from tandem_operator.plan.rollout import RolloutStep, rollout_step
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.succession import new_roles_serve
from tandem_operator.plan.targets import Target
from tandem_operator.plan.undrain import reversible_drains
from tandem_operator.plan.victims import victims


@dataclass
class Sizing:
    """What was decided, and what stood in the way. Built up by `size` and then only read."""

    actions: list[Action] = field(default_factory=list)
    requeue_seconds: float | None = None
    # Roles that should grow and may not, with the sentence why.
    blocked: dict[str, str] = field(default_factory=dict)
    # Roles whose GPUs cannot be told.
    uncounted: set[str] = field(default_factory=set)

    def leaving(self) -> set[str]:
        """Names of the workers that are let go in this pass."""
        return {action.pod for action in self.actions if isinstance(action, Drain | Delete)}

    def look_again(self, seconds: float) -> None:
        seconds = max(0.1, seconds)
        self.requeue_seconds = seconds if self.requeue_seconds is None else min(self.requeue_seconds, seconds)


def size(observed: Observed, targets: dict[str, Target], *, now: float, settings: Settings) -> Sizing:
    """Decide about every worker of the service."""
    spec = observed.spec
    assert spec is not None
    sizing = Sizing()
    _end_finished(observed, sizing, now=now, settings=settings)
    budget = gpu_budget(observed)
    wanted: dict[str, list[str]] = {}
    for name, target in targets.items():
        wanted[name] = _shrink_or_roll(observed, spec, target, budget, sizing, now=now)
    _shrink_to_budget(observed, targets, budget, sizing, now=now)
    _leave_old_roles(observed, targets, sizing, now=now, settings=settings)
    _grow(observed, spec, targets, wanted, budget, sizing, now=now, settings=settings)
    _end_drained(observed, spec, sizing, now=now, settings=settings)
    return sizing


def _end_finished(observed: Observed, sizing: Sizing, *, now: float, settings: Settings) -> None:
    """An evicted or failed pod never comes back by itself; its name must be free for the next."""
    for pod in observed.pods:
        if pod.finished and not pod.terminating:
            age = now - pod.created_at
            if age < settings.replace_failed_seconds:
                sizing.look_again(settings.replace_failed_seconds - age)
                continue
            why = pod.reason or pod.phase
            sizing.actions.append(Delete(pod.name, pod.uid, pod.role, f"it ended ({why})"))


def _end_drained(
    observed: Observed, spec: InferenceServiceSpec, sizing: Sizing, *, now: float, settings: Settings
) -> None:
    taken_back = {action.pod for action in sizing.actions if isinstance(action, Undrain)}
    for pod in observed.pods:
        if not pod.draining or pod.name in taken_back:
            continue
        step = drain_step(
            pod,
            observed.quiet.get(pod.name, Quiet()),
            now=now,
            deadline_seconds=parse_seconds(spec.drain.deadline),
            settings=settings,
            # Asked of the worker's role, not of the mode: after a change of mode old prefill workers still lend KV.
            hands_over_kv=True,
        )
        if isinstance(step, Gone):
            sizing.actions.append(Delete(pod.name, pod.uid, pod.role, step.reason))
        else:
            sizing.look_again(step.seconds)


def _shrink_or_roll(
    observed: Observed,
    spec: InferenceServiceSpec,
    target: Target,
    budget: Budget,
    sizing: Sizing,
    *,
    now: float,
) -> list[str]:
    """Let go of surplus and outdated workers of one role; returns a reason for each worker that it lacks."""
    role = spec.roles[target.role]
    wanted_hash = template_hash(observed.name, spec, role)
    members = [pod for pod in observed.pods if pod.role == target.role and pod.member]
    step = rollout_step(
        target.role,
        observed,
        wanted_hash=wanted_hash,
        target=target.replicas,
        room_for_surge=budget.admits(gpus_per_worker(role)),
    )
    for pod in step.discard:
        sizing.actions.append(
            Delete(pod.name, pod.uid, pod.role, "its template is out of date and it never served")
        )
    members = [pod for pod in members if pod not in step.discard]
    # While a rollout is under way one more than the target is meant, not surplus.
    rolling = target.replicas > 0 and any(pod.template_hash != wanted_hash for pod in members)
    surplus = len(members) - target.replicas - (1 if rolling else 0)
    if surplus > 0:
        for pod in victims(members, observed, wanted_hash=wanted_hash)[:surplus]:
            why = f"{target.role} {len(members)} -> {target.replicas}"
            sizing.actions.append(_let_go(pod, now=now, reason=why, reversible=True))
    elif step.retire is not None:
        sizing.actions.append(_let_go(step.retire, now=now, reason="its template is out of date"))
    return _lacking(step, target, members)


def _shrink_to_budget(
    observed: Observed, targets: dict[str, Target], budget: Budget, sizing: Sizing, *, now: float
) -> None:
    """A budget that was lowered below what runs: let go what is above the minimum, the largest role first."""
    if budget.limit is None:
        return
    gone = sizing.leaving()
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
        sizing.actions.append(_let_go(pod, now=now, reason=reason, reversible=True))


def _lacking(step: RolloutStep, target: Target, members: list[PodView]) -> list[str]:
    missing = target.replicas - len(members)
    if missing > 0:
        return [f"{target.role} {len(members)} -> {target.replicas}"] * missing
    if step.surge:
        return [f"{target.role} rolls out a new template"]
    return []


def _let_go(pod: PodView, *, now: float, reason: str, reversible: bool = False) -> Action:
    """A worker that never served has nothing to finish."""
    if not pod.started:
        return Delete(pod.name, pod.uid, pod.role, reason)
    return Drain(pod.name, pod.uid, pod.role, now, reason, reversible)


def _leave_old_roles(
    observed: Observed, targets: dict[str, Target], sizing: Sizing, *, now: float, settings: Settings
) -> None:
    """After a change of mode: the old roles' workers go only when the new ones serve and are routed to (D8, D9)."""
    old = [pod for pod in observed.pods if pod.role not in targets and pod.member]
    if not old or not new_roles_serve(observed, targets) or not router_has_turned(observed, settings):
        return
    for pod in old:
        reason = f"the service has no role {pod.role or 'unknown'} any more"
        sizing.actions.append(_let_go(pod, now=now, reason=reason))


def _grow(
    observed: Observed,
    spec: InferenceServiceSpec,
    targets: dict[str, Target],
    wanted: dict[str, list[str]],
    budget: Budget,
    sizing: Sizing,
    *,
    now: float,
    settings: Settings,
) -> None:
    """Take back what drains, then create what is still lacking while the budget admits it.

    Roles below their minimum go first, then who is furthest behind.
    """
    ordinals = free_ordinals(observed)
    have = {name: sum(1 for pod in observed.pods if pod.role == name and pod.member) for name in targets}
    waiting = {name: list(reasons) for name, reasons in wanted.items() if reasons}
    order = list(targets)
    drained = {
        name: reversible_drains(
            name,
            observed,
            wanted_hash=template_hash(observed.name, spec, spec.roles[name]),
            now=now,
            settings=settings,
        )
        for name in waiting
    }
    lasting = lasting_budget(observed, leaving=sizing.leaving())
    creates: list[Action] = []
    while waiting:
        name = min(waiting, key=lambda role: _turn(targets[role], have[role], order.index(role)))
        gpus = gpus_per_worker(spec.roles[name])
        admitted = budget.admits(gpus)
        warm = drained[name][0] if drained[name] else None
        # It holds its GPUs already; only a budget below what runs, or a role below its minimum, may claim them.
        if warm and (
            admitted or (lasting.admits(warm.gpus) and not _others_starve(name, targets, have, sizing))
        ):
            reason = waiting[name].pop(0)
            sizing.actions.append(Undrain(warm.name, warm.uid, name, warm.resource_version, reason))
            drained[name].remove(warm)
            lasting = lasting.plus(warm.gpus)
        elif admitted:
            reason = waiting[name].pop(0)
            manifest = worker_pod(
                namespace=observed.namespace,
                service=observed.name,
                spec=spec,
                role_name=name,
                ordinal=next(ordinals),
                owner=observed.owner_reference(),
                images=settings.images,
            )
            creates.append(Create(manifest, name, reason))
            budget = budget.plus(gpus)
        else:
            if gpus is None or budget.used is None:
                sizing.uncounted.add(name)
            sizing.blocked[name] = _blocked_sentence(name, gpus, budget, targets[name])
            del waiting[name]
            continue
        have[name] += 1
        if not waiting[name]:
            del waiting[name]
    sizing.actions += creates
    if sizing.blocked:
        _make_room(observed, targets, sizing, now=now)


def _turn(target: Target, have: int, place: int) -> tuple[bool, float, int]:
    """Who is served first when GPUs are short: roles below their minimum, then who is furthest behind."""
    return have >= target.minimum, have / max(1, target.replicas), place


def _others_starve(role: str, targets: dict[str, Target], have: dict[str, int], sizing: Sizing) -> bool:
    """Does a role below its minimum wait for GPUs while this one has its own?"""
    return have[role] >= targets[role].minimum and any(
        have[other] < targets[other].minimum for other in sizing.blocked
    )


def _blocked_sentence(role: str, gpus: int | None, budget: Budget, target: Target) -> str:
    if gpus is None or budget.used is None:
        return (
            f"the GPUs of a {role} worker cannot be told from its resource claims, so gpuBudget admits none"
        )
    return (
        f"{role} should have {target.replicas} workers; one more needs {gpus} GPU{'s' if gpus != 1 else ''}, "
        f"and {budget.used} of gpuBudget {budget.limit} are in use"
    )


def _make_room(observed: Observed, targets: dict[str, Target], sizing: Sizing, *, now: float) -> None:
    """After a change of mode the old roles may hold the whole budget: then one of theirs must go first."""
    old = [pod for pod in observed.pods if pod.role not in targets]
    if any(pod.draining or pod.terminating for pod in old):
        return
    gone = sizing.leaving()
    members = [pod for pod in old if pod.member and pod.gpus and pod.name not in gone]
    if members:
        # From the role that has most, so that no old role is emptied before the others.
        count = {pod.role: sum(1 for other in members if other.role == pod.role) for pod in members}
        pod = min(victims(members, observed, wanted_hash=""), key=lambda pod: -count[pod.role])
        sizing.actions.append(_let_go(pod, now=now, reason="the roles of the new mode need its GPUs"))
