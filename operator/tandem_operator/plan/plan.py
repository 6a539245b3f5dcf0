"""`plan`: the rooms of this folder in order. Pure; the same input gives the same plan."""

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    DEPLOYMENT,
    NETWORK_POLICY,
    POD_DISRUPTION_BUDGET,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    WORKER_POOL,
)
from tandem_operator.build.template_hash import template_hash
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.actions import Plan
from tandem_operator.plan.budget import gpu_budget
from tandem_operator.plan.children import (
    leaders_need_names,
    service_name,
    unwanted_objects,
    wanted_objects,
    wanted_pools,
)
from tandem_operator.plan.events import action_events, fault_events
from tandem_operator.plan.gateway import awaited_picker
from tandem_operator.plan.marks import wanted_marks
from tandem_operator.plan.routing import enlist_wait, enlists, relists, unlists
from tandem_operator.plan.schema import storable
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.sizing import size
from tandem_operator.plan.status import count_role, invalid_status, pool_status, service_status
from tandem_operator.plan.targets import targets

_KINDS = (DEPLOYMENT, NETWORK_POLICY, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SERVICE_ACCOUNT, WORKER_POOL)


def plan(observed: Observed, now: float, settings: Settings) -> Plan:
    """What to do about one service at Unix time `now`."""
    if observed.deleting:
        # Its children go with it, by owner reference; anything made now would only be in the way.
        return Plan()
    if observed.spec is None:
        status = invalid_status(observed, now=now)
        return Plan(status=status, events=fault_events(status, observed.status))
    wanted = targets(observed)
    draft = size(observed, wanted, now=now, settings=settings)
    counts = [count_role(observed, target, draft, now=now, settings=settings) for target in wanted.values()]
    conflict = _conflict(observed)
    status = service_status(
        observed, counts, service_name=service_name(observed), conflict=conflict, now=now, settings=settings
    )
    if observed.foreign or observed.refusals:
        draft.look_again(settings.look_again_seconds)
    if awaited_picker(observed) is not None and not observed.picker_ready:
        draft.look_again(settings.picker_check_seconds)
    if (wait := enlist_wait(observed, now, settings)) is not None:
        draft.look_again(wait)
    for pod in observed.pods:
        # Looked at again just after it should be gone: nothing else would tell that it is stuck.
        if pod.gone_by is not None and now <= pod.gone_by + settings.stuck_seconds:
            draft.look_again(pod.gone_by + settings.stuck_seconds + 1 - now)
    return Plan(
        objects=wanted_objects(observed, wanted, settings),
        pools=wanted_pools(observed, wanted),
        marks=wanted_marks(observed) + relists(observed, now, settings),
        actions=tuple(draft.actions),
        unlists=unlists(observed, now, settings),
        enlists=enlists(observed, now, settings),
        removals=unwanted_objects(observed, wanted),
        pool_status={
            pool.name: storable(pool_status(observed, pool.role), names.WORKER_POOL, observed.missing_fields)
            for pool in observed.pools.values()
            if pool.role in wanted
        },
        status=storable(status, names.INFERENCE_SERVICE, observed.missing_fields),
        events=action_events(draft.actions) + fault_events(status, observed.status),
        requeue_seconds=draft.requeue_seconds,
    )


def _conflict(observed: Observed) -> str | None:
    """A name that we need and somebody else has. The Service has a second choice, so it is none."""
    kinds = {kind.plural: kind.kind for kind in _KINDS}
    needed = sorted((kinds[plural], name) for plural, name in observed.foreign if plural in kinds)
    if observed.foreign >= {("services", observed.name), ("services", names.router_name(observed.name))}:
        needed.append(("Service", names.router_name(observed.name)))
    leaders = names.leaders_name(observed.name)
    if ("services", leaders) in observed.foreign and leaders_need_names(observed):
        needed.append(("Service", leaders))
    if not needed:
        return None
    kind, name = needed[0]
    more = f" (and {len(needed) - 1} more)" if len(needed) > 1 else ""
    return f"{kind} {name} exists and is not this service's; it is left as it is{more}"


def wants_load(observed: Observed) -> frozenset[str]:
    """Names of the workers whose load the plan would ask for: draining ones, and all of a role that must let go.

    Asked only then, so that a steady fleet costs no request.
    """
    if observed.spec is None or observed.deleting:
        return frozenset()
    wanted = targets(observed)
    budget = gpu_budget(observed)
    over_budget = budget.limit is not None and budget.used is not None and budget.used > budget.limit
    asked = set()
    for role in {pod.role for pod in observed.pods}:
        members = [pod for pod in observed.pods if pod.role == role and pod.member and pod.started]
        target = wanted.get(role)
        surplus = target is None or len(members) > target.replicas
        present = template_hash(observed.name, observed.spec, observed.spec.roles[role]) if target else ""
        outdated = target is not None and any(pod.template_hash != present for pod in members)
        if surplus or outdated or over_budget:
            asked |= {pod.name for pod in members}
    asked |= {pod.name for pod in observed.pods if pod.draining and pod.started}
    return frozenset(asked)
