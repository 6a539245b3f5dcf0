"""router.gateway: an HTTPRoute of the Gateway API; its absence breaks nothing (ome#425)."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from tandem_api.inference_service import Gateway
from tandem_api.kubernetes.cluster import HTTP_ROUTE
from tandem_operator.observe.observed import Observed, Refusal
from tandem_operator.plan.plan import plan
from tests.operator.fleet import Fleet, spec

GATEWAY = {"parents": [{"name": "public", "namespace": "gateways"}], "hostnames": ["chat.example.com"]}
WITH = spec(router={"gateway": GATEWAY})


def route(fleet: Fleet) -> dict[str, Any] | None:
    routes = [apply.manifest for apply in fleet.plan().objects if apply.kind is HTTP_ROUTE]
    return routes[0] if routes else None


def condition(observed: Observed, kind: str, fleet: Fleet) -> dict[str, Any] | None:
    status = plan(observed, fleet.now, fleet.settings).status or {}
    return next((one for one in status["conditions"] if one["type"] == kind), None)


def test_nobody_who_asks_for_none_gets_one() -> None:
    fleet = Fleet(spec())
    assert route(fleet) is None
    assert condition(fleet.observed(), "GatewayReady", fleet) is None


def test_it_leads_the_api_and_nothing_else_to_the_router() -> None:
    made = route(Fleet(WITH))
    assert made is not None and made["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert made["metadata"]["name"] == "chat" and made["metadata"]["ownerReferences"]
    assert made["spec"]["parentRefs"] == [{"name": "public", "namespace": "gateways"}]
    assert made["spec"]["hostnames"] == ["chat.example.com"]
    (rule,) = made["spec"]["rules"]
    # /add_worker and /remove_worker lie beside /v1.
    assert [match["path"] for match in rule["matches"]] == [{"type": "PathPrefix", "value": "/v1"}]
    assert rule["backendRefs"] == [{"name": "chat", "port": 80}]


def test_no_gateway_s_timeout_cuts_a_stream() -> None:
    made = route(Fleet(WITH))
    assert made is not None
    assert made["spec"]["rules"][0]["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_without_hostnames_the_gateway_s_own_count() -> None:
    made = route(Fleet(spec(router={"gateway": {"parents": [{"name": "public", "sectionName": "https"}]}})))
    assert made is not None and "hostnames" not in made["spec"]
    assert made["spec"]["parentRefs"] == [{"name": "public", "sectionName": "https"}]


def test_a_route_without_a_gateway_is_refused() -> None:
    with pytest.raises(ValidationError):
        Gateway.model_validate({"parents": []})


def test_a_cluster_without_the_gateway_api_is_told_of_and_serves_all_the_same() -> None:
    fleet = Fleet(WITH)
    refusal = Refusal(HTTP_ROUTE.plural, "the cluster has no HTTPRoute (gateway.networking.k8s.io/v1)")
    without, told = fleet.observed(), replace(fleet.observed(), refusals=(refusal,))
    found = condition(told, "GatewayReady", fleet)
    assert found is not None and (found["status"], found["reason"]) == ("False", "RouteRefused")
    assert "has no HTTPRoute" in found["message"]
    assert condition(told, "Ready", fleet) == condition(without, "Ready", fleet)
    # It is tried again, for the kind may come.
    assert plan(told, fleet.now, fleet.settings).requeue_seconds is not None


def test_somebody_else_s_route_is_left_as_it_is() -> None:
    fleet = Fleet(WITH)
    observed = replace(fleet.observed(), foreign=frozenset({(HTTP_ROUTE.plural, "chat")}))
    assert not [one for one in plan(observed, fleet.now, fleet.settings).objects if one.kind is HTTP_ROUTE]
    found = condition(observed, "GatewayReady", fleet)
    assert found is not None and (found["status"], found["reason"]) == ("False", "NameConflict")


def test_a_route_that_is_there_is_told() -> None:
    fleet = Fleet(WITH)
    fleet.step()
    found = condition(fleet.observed(), "GatewayReady", fleet)
    assert found is not None and (found["status"], found["reason"]) == ("True", "RouteMade")


def test_it_goes_when_it_is_asked_for_no_more_ready_or_not() -> None:
    fleet = Fleet(WITH)
    fleet.step()
    fleet.edit(router={})
    assert [(one.kind, one.name) for one in fleet.plan().removals] == [(HTTP_ROUTE, "chat")]
