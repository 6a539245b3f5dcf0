"""The way in from a gateway, where the spec asks for one: whither the HTTPRoute leads, and GatewayReady.

That condition never decides whether all is ready. Absence of the Gateway API, or of its Inference Extension, breaks
nothing: the service serves inside the cluster, or through the router, all the same.

An InferencePool that is asked for is made at once; the route turns to it only when there is somebody to turn to, and
from then on stays. Before the pool goes the route has turned back.
"""

from tandem_api.inference_service import InferencePool
from tandem_api.kubernetes.cluster import HTTP_ROUTE, INFERENCE_POOL, Manifest
from tandem_api.reasons import Condition, Reason
from tandem_operator.build.gateway import leads_to_pool, to_pool, to_router
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.actions import Remove
from tandem_operator.plan.conditions import Verdict
from tandem_operator.plan.faults import shorten
from tandem_operator.plan.succession import new_roles_serve
from tandem_operator.plan.targets import targets


def route_backend(observed: Observed, *, router: str) -> Manifest:
    """Whither the HTTPRoute shall lead now. `router` is the name of the router's Service."""
    if _turned(observed) or (observed.picker_ready and awaited_picker(observed) is not None):
        return to_pool(observed.name)
    return to_router(router)


def awaited_picker(observed: Observed) -> str | None:
    """Name of the Service that the HTTPRoute waits for before it turns to the pool; None when it waits for nobody."""
    wish = _wish(observed)
    if wish is None or not _waits(observed) or not _workers_serve(observed):
        return None
    return wish.endpoint_picker.name


def unwanted_ways_in(observed: Observed) -> tuple[Remove, ...]:
    """What the spec asks for no more."""
    assert observed.spec is not None
    found = []
    route = _live(observed, HTTP_ROUTE.plural)
    if route is not None and observed.spec.router.gateway is None:
        found.append(Remove(HTTP_ROUTE, observed.name, route["metadata"]["uid"], "router.gateway is not set"))
    pool = _live(observed, INFERENCE_POOL.plural)
    if pool is not None and _wish(observed) is None and not _leads_to_pool(observed):
        why = "router.gateway.inferencePool is not set"
        found.append(Remove(INFERENCE_POOL, observed.name, pool["metadata"]["uid"], why))
    return tuple(found)


def gateway_verdict(observed: Observed) -> Verdict | None:
    """None where no gateway is asked for, and before what is asked for has been written for the first time."""
    if observed.spec is None or observed.spec.router.gateway is None:
        return None
    name = observed.name
    if observed.is_foreign(HTTP_ROUTE, name):
        message = f"HTTPRoute {name} exists and is not this service's; it is left as it is"
        return Verdict(Condition.GATEWAY_READY, "False", Reason.NAME_CONFLICT, message)
    if (refusal := _refusal(observed, HTTP_ROUTE.plural)) is not None:
        return Verdict(Condition.GATEWAY_READY, "False", Reason.ROUTE_REFUSED, shorten(refusal))
    if observed.child(HTTP_ROUTE, name) is None:
        return None
    if (wish := _wish(observed)) is not None:
        return _pool_verdict(observed, wish)
    message = f"HTTPRoute {name} leads to the router; its own status says whether the gateway took it"
    return Verdict(Condition.GATEWAY_READY, "True", Reason.ROUTE_MADE, message)


def _pool_verdict(observed: Observed, wish: InferencePool) -> Verdict | None:
    name, picker = observed.name, wish.endpoint_picker
    meanwhile = f"HTTPRoute {name} leads to the router"
    if observed.is_foreign(INFERENCE_POOL, name):
        message = (
            f"InferencePool {name} exists and is not this service's; it is left as it is, and {meanwhile}"
        )
        return Verdict(Condition.GATEWAY_READY, "False", Reason.NAME_CONFLICT, message)
    if (refusal := _refusal(observed, INFERENCE_POOL.plural)) is not None:
        message = f"{meanwhile}, for there is no InferencePool: {refusal}"
        return Verdict(Condition.GATEWAY_READY, "False", Reason.POOL_REFUSED, shorten(message))
    if observed.child(INFERENCE_POOL, name) is None:
        return None
    if not _turned(observed):
        missing = (
            f"the endpoint picker's Service {picker.name} has a ready endpoint"
            if _workers_serve(observed)
            else "the workers serve"
        )
        message = f"InferencePool {name} is made; {meanwhile} until {missing}"
        return Verdict(Condition.GATEWAY_READY, "False", Reason.POOL_WAITING, message)
    message = (
        f"HTTPRoute {name} leads to InferencePool {name}, past the router; the endpoint picker {picker.name}:"
        f"{picker.port} chooses the workers; the status of both objects says whether the gateway took them"
    )
    return Verdict(Condition.GATEWAY_READY, "True", Reason.ROUTE_MADE, message)


def _wish(observed: Observed) -> InferencePool | None:
    return observed.spec.inference_pool if observed.spec is not None else None


def _turned(observed: Observed) -> bool:
    """It has turned to the pool, and may stay: both are there and asked for."""
    return _pool_is_there(observed) and _leads_to_pool(observed)


def _waits(observed: Observed) -> bool:
    """The pool is there, and the route is still to turn to it."""
    route = _live(observed, HTTP_ROUTE.plural)
    return _pool_is_there(observed) and route is not None and not leads_to_pool(route)


def _pool_is_there(observed: Observed) -> bool:
    return _wish(observed) is not None and _live(observed, INFERENCE_POOL.plural) is not None


def _leads_to_pool(observed: Observed) -> bool:
    route = _live(observed, HTTP_ROUTE.plural)
    return route is not None and leads_to_pool(route)


def _workers_serve(observed: Observed) -> bool:
    return new_roles_serve(observed, targets(observed))


def _live(observed: Observed, plural: str) -> Manifest | None:
    """Ours, of the service's own name, and not on its way out."""
    manifest = observed.children.get((plural, observed.name))
    return None if manifest is None or manifest["metadata"].get("deletionTimestamp") else manifest


def _refusal(observed: Observed, plural: str) -> str | None:
    return next((each.message for each in observed.refusals if each.object == plural), None)
