"""Room for a new mode's roles where the old ones hold all GPUs, of the budget or of the cluster.

The old roles give up one worker at a time, and each keeps one that serves until the router has turned. Where that is
not enough, nothing is let go and the condition says what is missing: a service in its old mode is better than a gap.
"""

from collections.abc import Collection, Mapping, Sequence

from tandem_api import names
from tandem_api.reasons import Reason
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.spec import gpus_per_worker
from tandem_operator.plan.draft import Draft, Hindrance
from tandem_operator.plan.faults import pod_fault
from tandem_operator.plan.room import is_placed, lacks_room, seconds_until_room_is_known
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.succession import must_serve, new_roles_serve
from tandem_operator.plan.targets import Target
from tandem_operator.plan.victims import victims

_BUDGET = Reason.GPU_BUDGET_EXCEEDED


def make_room_for_new_mode(
    observed: Observed, targets: Mapping[str, Target], draft: Draft, *, now: float, settings: Settings
) -> bool:
    """Let one old worker go, or say why none may. False when the old roles have no part in what is lacking."""
    old = [pod for pod in observed.pods if pod.role not in targets and not pod.finished]
    if not old or new_roles_serve(observed, targets):
        return False
    if any(pod.draining or pod.terminating for pod in old):
        # What it gives back may be enough.
        return True
    short = _short(observed, targets, draft)
    if not short:
        return False
    gone = draft.leaving()
    members = [pod for pod in old if pod.member and pod.name not in gone]
    kept = _kept(members, observed, now=now, settings=settings)
    spare = [pod for pod in members if pod not in kept and _is_of_use(pod, short, observed)]
    settled = seconds_until_room_is_known(observed, now, settings) <= 0
    if (beyond := _gpus_missing_in_budget(observed, targets, ())) > 0:
        why = f"the new mode's workers need {_gpus(beyond)} more than gpuBudget, also without those of the old one"
        _say_blocked(draft, short, f"{why}; raise gpuBudget or lower minReplicas")
    elif (
        missing := max(
            _gpus_missing_in_budget(observed, targets, kept), _gpus_missing_in_cluster(observed, short, spare)
        )
    ) > 0:
        if settled or _was_said(observed):
            _say_blocked(draft, short, _way_out(kept, missing))
    elif not spare:
        return False
    elif settled:
        pod = _first_to_go(spare, observed, now=now, settings=settings)
        draft.let_go(pod, now=now, reason="the roles of the new mode need its GPUs")
    return True


def _short(observed: Observed, targets: Mapping[str, Target], draft: Draft) -> dict[str, int]:
    """Role -> how many of the workers that it must have are without a place; of roles that cannot get them by waiting.

    Empty too while the scheduler has not yet spoken about each of them.
    """
    short: dict[str, int] = {}
    stuck = False
    for name, target in targets.items():
        members = [pod for pod in observed.pods if pod.role == name and pod.member]
        homeless = [pod for pod in members if not is_placed(pod)]
        if any(not lacks_room(pod) for pod in homeless):
            return {}
        unplaced = must_serve(target) - (len(members) - len(homeless))
        if unplaced > 0:
            short[name] = unplaced
            blocked = draft.blocked.get(name)
            stuck = stuck or bool(homeless) or (blocked is not None and blocked.reason is _BUDGET)
    return short if stuck else {}


def _kept(
    members: Sequence[PodView], observed: Observed, *, now: float, settings: Settings
) -> tuple[PodView, ...]:
    """The workers without which the old mode would not serve; none when it does not serve anyway."""
    roles = {pod.role for pod in members}
    if roles & {names.PREFILL, names.DECODE}:
        roles |= {names.PREFILL, names.DECODE}
    kept = []
    for role in sorted(roles):
        sound = [pod for pod in members if pod.role == role and _is_sound(pod, now, settings)]
        if not sound:
            return ()
        kept.append(victims(sound, observed, wanted_hash="")[-1])
    return tuple(kept)


def _is_sound(pod: PodView, now: float, settings: Settings) -> bool:
    """It serves, or will again in a moment."""
    return pod.started and pod_fault(pod, now=now, stuck_seconds=settings.stuck_seconds) is None


def _is_of_use(pod: PodView, short: Collection[str], observed: Observed) -> bool:
    """Has it GPUs to give? Where the new roles want none either, its processors and memory will do."""
    assert observed.spec is not None
    if pod.gpus:
        return True
    return pod.gpus == 0 and all(gpus_per_worker(observed.spec.roles[role]) == 0 for role in short)


def _gpus_missing_in_budget(
    observed: Observed, targets: Mapping[str, Target], kept: Collection[PodView]
) -> int:
    """Beyond the budget when only `kept` are left of the old roles, and of the new ones those that must serve."""
    spec = observed.spec
    assert spec is not None
    if spec.gpu_budget is None:
        return 0
    new = sum(
        must_serve(target) * (gpus_per_worker(spec.roles[name]) or 0) for name, target in targets.items()
    )
    return new + sum(pod.gpus or 0 for pod in kept) - spec.gpu_budget


def _gpus_missing_in_cluster(observed: Observed, short: Mapping[str, int], spare: Collection[PodView]) -> int:
    """GPUs (workers, where they have none) that are lacking still when all the spare ones have gone.

    Only of pods that wait for a place: what the budget keeps from being made has asked the cluster for nothing yet.
    """
    assert observed.spec is not None
    wanted = 0
    for role, unplaced in short.items():
        waiting = sum(1 for pod in observed.pods if pod.role == role and pod.member and lacks_room(pod))
        wanted += min(unplaced, waiting) * (gpus_per_worker(observed.spec.roles[role]) or 1)
    return wanted - sum(pod.gpus or 1 for pod in spare)


def _first_to_go(spare: Sequence[PodView], observed: Observed, *, now: float, settings: Settings) -> PodView:
    """One that does not serve, or else one of the role that has most to spare."""
    sick = [pod for pod in spare if not _is_sound(pod, now, settings)]
    if sick:
        return victims(sick, observed, wanted_hash="")[0]
    count = {pod.role: sum(1 for other in spare if other.role == pod.role) for pod in spare}
    return min(victims(spare, observed, wanted_hash=""), key=lambda pod: -count[pod.role])


def _was_said(observed: Observed) -> bool:
    """So that a restart of the operator takes nothing back for a moment."""
    conditions = observed.status.get("conditions") or []
    return any(condition.get("reason") == Reason.MODE_CHANGE_BLOCKED for condition in conditions)


def _way_out(kept: Collection[PodView], missing: int) -> str:
    if not kept:
        return f"the new mode lacks {_gpus(missing)}, also without the workers of the old one"
    keepers = " and ".join(pod.name for pod in kept)
    return (
        f"the new mode lacks {_gpus(missing)} while {keepers} serve{'s' if len(kept) == 1 else ''} in the old one, so "
        f"nothing is stopped; free {'it' if missing == 1 else 'them'} or raise gpuBudget, or delete {keepers} and "
        "accept a gap"
    )


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count != 1 else ''}"


def _say_blocked(draft: Draft, short: Collection[str], why: str) -> None:
    for role in short:
        draft.blocked[role] = Hindrance(Reason.MODE_CHANGE_BLOCKED, why)
