"""Which objects a service wants beside its workers, and which of its objects it wants no more."""

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_POOL,
    NETWORK_POLICY,
    POD_DISRUPTION_BUDGET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    WORKER_POOL,
    Kind,
)
from tandem_operator.build.disruption_budget import disruption_budget
from tandem_operator.build.gateway import http_route
from tandem_operator.build.group import leaders_service
from tandem_operator.build.inference_pool import inference_pool
from tandem_operator.build.network_policy import network_policy
from tandem_operator.build.router_deployment import router_deployment
from tandem_operator.build.router_rbac import router_role, router_role_binding, router_service_account
from tandem_operator.build.router_service import router_service
from tandem_operator.build.worker_pool import worker_pool
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.actions import Apply, CreatePool, Remove, SetReplicas
from tandem_operator.plan.gateway import route_backend, unwanted_ways_in
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.succession import new_roles_serve
from tandem_operator.plan.targets import Target, seed


def service_name(observed: Observed) -> str:
    """The Service has the InferenceService's own name where that is free, else the router's. Once chosen, kept."""
    fallback = names.router_name(observed.name)
    if observed.child(SERVICE, observed.name) is not None:
        return observed.name
    if observed.is_foreign(SERVICE, observed.name) or observed.child(SERVICE, fallback) is not None:
        return fallback
    return observed.name


def wanted_objects(observed: Observed, targets: dict[str, Target], settings: Settings) -> tuple[Apply, ...]:
    """Everything that is applied, in an order in which each finds what it refers to."""
    spec = observed.spec
    assert spec is not None
    owner = observed.owner_reference()
    place = {"namespace": observed.namespace, "service": observed.name}
    wanted = [
        Apply(SERVICE_ACCOUNT, router_service_account(**place, owner=owner)),
        Apply(ROLE, router_role(**place, owner=owner)),
        Apply(ROLE_BINDING, router_role_binding(**place, owner=owner)),
        Apply(SERVICE, router_service(**place, name=service_name(observed), owner=owner)),
        Apply(NETWORK_POLICY, network_policy(**place, gateway=spec.router.gateway, owner=owner)),
    ]
    wanted += [
        Apply(
            POD_DISRUPTION_BUDGET,
            disruption_budget(
                **place, role=name, replicas=target.replicas, nodes=spec.roles[name].nodes, owner=owner
            ),
        )
        for name, target in targets.items()
    ]
    if spec.inference_pool is not None:
        wanted.append(Apply(INFERENCE_POOL, inference_pool(**place, wish=spec.inference_pool, owner=owner)))
    if spec.router.gateway is not None:
        backend = route_backend(observed, router=service_name(observed))
        route = http_route(**place, backend=backend, gateway=spec.router.gateway, owner=owner)
        wanted.append(Apply(HTTP_ROUTE, route))
    if leaders_need_names(observed):
        wanted.append(Apply(SERVICE, leaders_service(**place, owner=owner)))
    if not _router_must_wait(observed, targets):
        wanted.append(
            Apply(DEPLOYMENT, router_deployment(**place, spec=spec, owner=owner, images=settings.images))
        )
    return tuple(
        apply for apply in wanted if not observed.is_foreign(apply.kind, apply.manifest["metadata"]["name"])
    )


def leaders_need_names(observed: Observed) -> bool:
    """Is there, or will there be, a worker on several nodes?"""
    roles = observed.spec.roles.values() if observed.spec else ()
    return any(role.nodes > 1 for role in roles) or any(pod.group for pod in observed.pods)


def _router_must_wait(observed: Observed, targets: dict[str, Target]) -> bool:
    """After a change of mode the router turns to the new roles only when they serve (field case D9)."""
    if observed.child(DEPLOYMENT, names.router_name(observed.name)) is None:
        return False
    old = any(pod.role not in targets and pod.member and pod.ready for pod in observed.pods)
    return old and not new_roles_serve(observed, targets)


def router_has_turned(observed: Observed, settings: Settings, *, now: float) -> bool:
    """Do all router pods run with the present mode's selectors? Only then may the old roles' workers leave.

    A router of before that is still ending counts too: connections that clients keep open bring it new requests.
    """
    spec = observed.spec
    assert spec is not None
    if spec.router.replicas == 0 or observed.is_foreign(DEPLOYMENT, names.router_name(observed.name)):
        return True
    live = observed.child(DEPLOYMENT, names.router_name(observed.name))
    if live is None:
        return False
    # One that should be gone by now, on a node that is lost, is not waited for.
    there = [
        pod
        for pod in observed.router_pods
        if not pod.finished and (pod.gone_by is None or now <= pod.gone_by)
    ]
    if len(there) > spec.router.replicas:
        return False
    wanted = router_deployment(
        namespace=observed.namespace,
        service=observed.name,
        spec=spec,
        owner=observed.owner_reference(),
        images=settings.images,
    )
    hashes = [
        (manifest["metadata"].get("annotations") or {}).get(names.ANNOTATION_MANIFEST_HASH)
        for manifest in (live, wanted)
    ]
    status = live.get("status") or {}
    return (
        hashes[0] == hashes[1]
        and int(status.get("observedGeneration") or 0) >= int(live["metadata"].get("generation") or 0)
        and int(status.get("readyReplicas") or 0) >= spec.router.replicas
        and int(status.get("updatedReplicas") or 0) == int(status.get("replicas") or 0)
    )


def wanted_pools(observed: Observed, targets: dict[str, Target]) -> tuple[CreatePool | SetReplicas, ...]:
    """A pool is made once and then belongs to whoever scales it; only with autoscaling Off is it set."""
    spec = observed.spec
    assert spec is not None
    wanted: list[CreatePool | SetReplicas] = []
    for name, target in targets.items():
        pool_name = names.pool_name(observed.name, name)
        pool = observed.pools.get(pool_name)
        if pool is None:
            if not observed.is_foreign(WORKER_POOL, pool_name):
                wanted.append(
                    CreatePool(
                        worker_pool(
                            namespace=observed.namespace,
                            service=observed.name,
                            role=name,
                            replicas=seed(observed, name),
                            owner=observed.owner_reference(),
                        )
                    )
                )
        elif spec.autoscaling.mode == "Off" and pool.replicas != target.replicas:
            wanted.append(SetReplicas(pool_name, target.replicas))
    return tuple(wanted)


def unwanted_objects(observed: Observed, targets: dict[str, Target]) -> tuple[Remove, ...]:
    """What an earlier mode left behind; only once the present one serves (field case D8)."""
    ways_in = unwanted_ways_in(observed)
    if not new_roles_serve(observed, targets):
        return ways_in
    kept: dict[Kind, set[str]] = {
        WORKER_POOL: {names.pool_name(observed.name, role) for role in targets},
        POD_DISRUPTION_BUDGET: {names.pool_name(observed.name, role) for role in targets},
        SERVICE: {service_name(observed)}
        | ({names.leaders_name(observed.name)} if leaders_need_names(observed) else set()),
    }
    busy = {pod.role for pod in observed.pods if not pod.terminating}
    removals = []
    for kind, keep in kept.items():
        for (plural, name), manifest in sorted(observed.children.items()):
            if plural != kind.plural or name in keep or name.removeprefix(f"{observed.name}-") in busy:
                continue
            if manifest["metadata"].get("deletionTimestamp"):
                continue
            removals.append(
                Remove(kind, name, manifest["metadata"]["uid"], "no role of the present mode needs it")
            )
    return (*ways_in, *removals)
