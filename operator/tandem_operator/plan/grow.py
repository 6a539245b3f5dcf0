"""What a role that lacks workers gets: its own draining ones back, another role's surplus, and only then new ones.

In this order they serve after a second, a few seconds, and a cold start of minutes; the first two need no further GPU.
"""

from collections.abc import Collection, Mapping

from tandem_api import names
from tandem_api.reasons import Reason
from tandem_operator.build.template_hash import template_hash
from tandem_operator.build.worker_pod import worker_pods
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.spec import gpus_per_worker
from tandem_operator.plan.actions import Create, Delete, Flip, Undrain
from tandem_operator.plan.budget import Budget, lasting_budget
from tandem_operator.plan.draft import Draft, Hindrance
from tandem_operator.plan.flip import flippable, is_free, worth_waiting_for
from tandem_operator.plan.minima import within_reach
from tandem_operator.plan.new_mode import make_room_for_new_mode
from tandem_operator.plan.ordinals import free_ordinals
from tandem_operator.plan.rest import next_attempt
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.targets import Target
from tandem_operator.plan.undrain import reversible_drains
from tandem_operator.plan.victims import victims


def grow(
    observed: Observed,
    targets: Mapping[str, Target],
    wanted: Mapping[str, list[str]],
    budget: Budget,
    draft: Draft,
    *,
    now: float,
    settings: Settings,
) -> None:
    """Fill what is `wanted` (role -> a reason per missing worker) as far as the budget admits it.

    Roles below their minimum go first, then who is furthest behind.
    """
    growth = _Growth(observed, targets, wanted, budget, draft, now, settings)
    growth.carry_on()
    dealt_with = make_room_for_new_mode(observed, targets, draft, now=now, settings=settings)
    starving = {role for role in growth.starving() if not growth.room_is_coming(role)}
    if starving and not dealt_with:
        _make_room_for_minima(observed, targets, draft, starving, now=now)


class _Growth:
    """One pass over the missing workers; each is filled, awaited or blocked."""

    def __init__(
        self,
        observed: Observed,
        targets: Mapping[str, Target],
        wanted: Mapping[str, list[str]],
        budget: Budget,
        draft: Draft,
        now: float,
        settings: Settings,
    ) -> None:
        assert observed.spec is not None
        self._observed, self._spec, self._targets = observed, observed.spec, targets
        self._draft, self._now, self._settings = draft, now, settings
        self._budget = budget
        self._lasting = lasting_budget(observed, leaving=draft.leaving())
        self._missing = {name: list(reasons) for name, reasons in wanted.items() if reasons}
        self._have = {
            name: sum(1 for pod in observed.pods if pod.role == name and pod.member) for name in targets
        }
        self._ordinals = free_ordinals(observed)
        self._drained = {
            name: reversible_drains(name, observed, wanted_hash=self._hash(name), now=now, settings=settings)
            for name in self._missing
        }
        # Workers of other roles that have been promised, whether they changed already or are still awaited.
        self._taken: set[str] = set()
        self._creates: list[Create] = []

    def carry_on(self) -> None:
        order = list(self._targets)
        while self._missing:
            name = min(
                self._missing,
                key=lambda role: _turn(self._targets[role], self._have[role], order.index(role)),
            )
            if self._take_back(name) or self._flip(name) or self._create(name):
                self._missing[name].pop(0)
                self._have[name] += 1
            elif self._another_forms(name):
                self._missing[name].clear()
            else:
                self._block(name)
                self._missing[name].clear()
            if not self._missing[name]:
                del self._missing[name]
        # Last, so that the GPUs of the others are never asked for twice.
        self._draft.actions += self._creates

    # --- the three ways, best first; each tells whether the place is filled -------------------------------
    def _take_back(self, role: str) -> bool:
        pod = next(iter(self._drained[role]), None)
        if pod is None or not self._may_keep(pod, role):
            return False
        self._draft.actions.append(
            Undrain(pod.name, pod.uid, role, pod.resource_version, self._missing[role][0])
        )
        self._drained[role].remove(pod)
        self._lasting = self._lasting.plus(pod.gpus)
        return True

    def _flip(self, role: str) -> bool:
        """Change a worker that is free, or leave the place to one that soon will be."""
        admitted = self._budget.admits(gpus_per_worker(self._spec.roles[role]))
        for pod in flippable(
            role,
            self._observed,
            self._draft,
            wanted_hash=self._hash(role),
            now=self._now,
            settings=self._settings,
        ):
            if pod.name in self._taken or not self._may_keep(pod, role):
                continue
            free = is_free(pod, self._observed, self._settings)
            if not free and admitted and not worth_waiting_for(pod, self._now, self._settings):
                continue
            self._taken.add(pod.name)
            self._lasting = self._lasting.plus(pod.gpus)
            if free:
                self._change(pod, role)
            else:
                self._await(pod, role)
            return True
        return False

    def _change(self, pod: PodView, role: str) -> None:
        reason = f"{self._missing[role][0]}, and {pod.role} has one too many"
        self._draft.actions = [
            action
            for action in self._draft.actions
            if not (isinstance(action, Delete) and action.pod == pod.name)
        ]
        self._draft.actions.append(Flip(pod.name, pod.uid, role, pod.resource_version, self._now, reason))

    def _await(self, pod: PodView, role: str) -> None:
        """Said in words that stay the same while it drains: a status that follows each request would never rest."""
        before = self._draft.awaited.get(role)
        sentence = f"{pod.name} comes from {pod.role} as soon as it is free"
        message = f"{before.message}; {sentence}" if before else sentence
        self._draft.awaited[role] = Hindrance(Reason.AWAITING_FLIP, message)

    def _create(self, role: str) -> bool:
        gpus = gpus_per_worker(self._spec.roles[role])
        if not self._budget.admits(gpus) or self._another_forms(role) or self._others_starve(role):
            return False
        pods = worker_pods(
            namespace=self._observed.namespace,
            service=self._observed.name,
            spec=self._spec,
            role_name=role,
            ordinal=next(self._ordinals),
            owner=self._observed.owner_reference(),
            images=self._settings.images,
        )
        attempt = next_attempt(self._observed, role, now=self._now, settings=self._settings)
        if attempt:
            pods[0]["metadata"].setdefault("annotations", {})[names.ANNOTATION_ATTEMPT] = str(attempt)
        self._creates.append(Create(pods[0], role, self._missing[role][0], others=pods[1:]))
        self._budget = self._budget.plus(gpus)
        return True

    # --- what forbids -------------------------------------------------------------------------------------
    def _another_forms(self, role: str) -> bool:
        """Groups look for their nodes one after the other: two that have half of theirs each would wait for ever."""
        if self._spec.roles[role].nodes == 1:
            return False
        return any(create.others for create in self._creates) or any(
            pod.forming for pod in self._observed.pods if pod.member
        )

    def _may_keep(self, pod: PodView, role: str) -> bool:
        """It holds its GPUs already; only a budget below what runs, or a role below its minimum, may claim them."""
        admitted = self._budget.admits(pod.gpus) or self._lasting.admits(pod.gpus)
        return admitted and not self._others_starve(role)

    def _others_starve(self, role: str) -> bool:
        """Does a role below its minimum wait for GPUs while this one has its own?"""
        return self._have[role] >= self._targets[role].minimum and bool(self.starving() - {role})

    def starving(self) -> set[str]:
        """Roles below their minimum that wait for GPUs which others have beyond theirs."""
        return {
            role for role in self._draft.blocked if within_reach(role, self._spec, self._targets, self._have)
        }

    def room_is_coming(self, role: str) -> bool:
        """Will the budget do once all that ends is gone, workers of an earlier service of this name included?"""
        return self._lasting.admits(gpus_per_worker(self._spec.roles[role]))

    def _block(self, role: str) -> None:
        gpus = gpus_per_worker(self._spec.roles[role])
        if gpus is None or self._budget.used is None:
            self._draft.blocked[role] = Hindrance(
                Reason.GPU_COUNT_UNKNOWN,
                f"the GPUs of a {role} worker cannot be told from its resource claims, so gpuBudget admits none",
            )
            return
        wanted = f"{role} should have {self._targets[role].replicas} workers"
        if self._budget.admits(gpus):
            others = " and ".join(sorted(self.starving() - {role}))
            why = f"{wanted}; the free GPUs are kept for {others}, which is below minReplicas"
        else:
            why = (
                f"{wanted}; one more needs {gpus} GPU{'s' if gpus != 1 else ''}, "
                f"and {self._budget.used} of gpuBudget {self._budget.limit} are in use"
            )
        self._draft.blocked[role] = Hindrance(Reason.GPU_BUDGET_EXCEEDED, why)

    def _hash(self, role: str) -> str:
        return template_hash(self._observed.name, self._spec, self._spec.roles[role])


def _turn(target: Target, have: int, place: int) -> tuple[bool, float, int]:
    """Who is served first when GPUs are short: roles below their minimum, then who is furthest behind."""
    return have >= target.minimum, have / max(1, target.replicas), place


def _make_room_for_minima(
    observed: Observed, targets: Mapping[str, Target], draft: Draft, starving: Collection[str], *, now: float
) -> None:
    """A role below its minimum serves nobody: one worker of a role that is above its own goes, and may come back."""
    if any(pod.draining or pod.terminating for pod in observed.pods):
        return
    gone = draft.leaving()
    spare: dict[str, list[PodView]] = {}
    for role, target in targets.items():
        members = [pod for pod in observed.pods if pod.role == role and pod.member and pod.name not in gone]
        if len(members) > target.minimum and members[0].gpus:
            spare[role] = members
    if gone or not spare:
        return
    role = max(spare, key=lambda name: len(spare[name]) - targets[name].minimum)
    reason = f"{' and '.join(sorted(starving))} is below minReplicas and needs its GPUs"
    draft.let_go(victims(spare[role], observed, wanted_hash="")[0], now=now, reason=reason, reversible=True)
