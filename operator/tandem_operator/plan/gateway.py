"""GatewayReady: is there a way in from a gateway, where the spec asks for one? It never decides whether all is ready.

Absence of the Gateway API breaks nothing: the service serves inside the cluster all the same.
"""

from tandem_api.kubernetes.cluster import HTTP_ROUTE
from tandem_api.reasons import Condition, Reason
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.conditions import Verdict
from tandem_operator.plan.faults import shorten


def gateway_verdict(observed: Observed) -> Verdict | None:
    """None where no gateway is asked for, and before the route has been written for the first time."""
    if observed.spec is None or observed.spec.router.gateway is None:
        return None
    name = observed.name
    if observed.is_foreign(HTTP_ROUTE, name):
        message = f"HTTPRoute {name} exists and is not this service's; it is left as it is"
        return Verdict(Condition.GATEWAY_READY, "False", Reason.NAME_CONFLICT, message)
    refusal = next((each for each in observed.refusals if each.object == HTTP_ROUTE.plural), None)
    if refusal is not None:
        return Verdict(Condition.GATEWAY_READY, "False", Reason.ROUTE_REFUSED, shorten(refusal.message))
    if observed.child(HTTP_ROUTE, name) is None:
        return None
    message = f"HTTPRoute {name} leads to the router; its own status says whether the gateway took it"
    return Verdict(Condition.GATEWAY_READY, "True", Reason.ROUTE_MADE, message)
