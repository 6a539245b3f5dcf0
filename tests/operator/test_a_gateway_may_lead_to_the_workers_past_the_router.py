"""router.gateway.inferencePool: an InferencePool for an endpoint picker of the user's; its absence breaks nothing."""

from dataclasses import replace
from typing import Any

import pytest

from tandem_api import names
from tandem_api.kubernetes.cluster import HTTP_ROUTE, INFERENCE_POOL, NETWORK_POLICY, Kind
from tandem_operator.observe.observed import Observed, Refusal
from tandem_operator.observe.picker import has_ready_endpoint
from tandem_operator.observe.spec import read_spec
from tandem_operator.plan.plan import plan
from tandem_operator.watch.kinds import WATCHED
from tests.operator.fleet import Fleet, colocated, spec

PARENTS = [{"name": "public", "namespace": "gateways"}]
PICKER = {"name": "chat-epp"}
WISH = {"parents": PARENTS, "inferencePool": {"endpointPicker": PICKER}}
TO_ROUTER = [{"name": "chat", "port": 80}]
TO_POOL = [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "chat"}]
POOL = (INFERENCE_POOL.plural, "chat")


def with_pool(**changes: Any) -> Fleet:
    return Fleet(colocated(router={"gateway": WISH}, **changes))


def turned(**changes: Any) -> Fleet:
    """All serve, and the route has turned to the pool."""
    fleet = with_pool(**changes)
    fleet.picker_ready = True
    fleet.settle()
    assert backends(fleet) == TO_POOL
    return fleet


def made(fleet: Fleet, kind: Kind) -> dict[str, Any] | None:
    return fleet.objects.get((kind.plural, "chat"))


def backends(fleet: Fleet) -> Any:
    route = made(fleet, HTTP_ROUTE)
    return route["spec"]["rules"][0]["backendRefs"] if route else None


def told(observed: Observed, fleet: Fleet, kind: str = "GatewayReady") -> tuple[str, str, str] | None:
    status = plan(observed, fleet.now, fleet.settings).status or {}
    found = next((one for one in status["conditions"] if one["type"] == kind), None)
    return (found["status"], found["reason"], found["message"]) if found else None


# --- the pool -----------------------------------------------------------------------------------------------
def test_nobody_who_asks_for_none_gets_one() -> None:
    fleet = Fleet(colocated(router={"gateway": {"parents": PARENTS}}))
    fleet.picker_ready = True
    fleet.settle()
    assert made(fleet, INFERENCE_POOL) is None
    assert backends(fleet) == TO_ROUTER


def test_it_names_the_picker_and_the_port_of_the_gate() -> None:
    picker = {"name": "chat-epp", "port": 9100, "failureMode": "FailOpen"}
    fleet = Fleet(
        colocated(router={"gateway": {"parents": PARENTS, "inferencePool": {"endpointPicker": picker}}})
    )
    fleet.step()
    pool = made(fleet, INFERENCE_POOL)
    assert pool is not None and pool["apiVersion"] == "inference.networking.k8s.io/v1"
    assert pool["metadata"]["ownerReferences"]
    wanted = {"name": "chat-epp", "port": {"number": 9100}, "failureMode": "FailOpen"}
    assert pool["spec"]["endpointPickerRef"] == wanted
    (engine,) = fleet.pods()[0]["spec"]["containers"]
    assert pool["spec"]["targetPorts"] == [{"number": engine["ports"][0]["containerPort"]}]


def test_by_default_a_silent_picker_means_no_answer() -> None:
    fleet = with_pool()
    fleet.step()
    pool = made(fleet, INFERENCE_POOL)
    assert pool is not None
    reference = pool["spec"]["endpointPickerRef"]
    assert (reference["port"], reference["failureMode"]) == ({"number": 9002}, "FailClose")


def test_it_has_the_workers_that_the_router_has_and_no_others() -> None:
    """Of several nodes only the leader serves, and a worker that drains has left both."""
    fleet = turned(workers={"minReplicas": 2, "maxReplicas": 4, "nodes": 2})
    fleet.scale(names.WORKERS, 1)
    fleet.busy = {pod["metadata"]["name"]: 1.0 for pod in fleet.pods()}
    fleet.edit(workers={"minReplicas": 1, "maxReplicas": 4, "nodes": 2})
    fleet.step()
    pool = made(fleet, INFERENCE_POOL)
    assert pool is not None
    selector = pool["spec"]["selector"]["matchLabels"]
    router = fleet.objects[("deployments", "chat-router")]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    of_router = dict(word.split("=") for word in router if word.startswith("tandem.dev/"))
    assert selector == of_router
    found = [pod for pod in fleet.pods() if selector.items() <= pod["metadata"]["labels"].items()]
    assert len(fleet.pods()) == 4 and len(found) == 1
    assert names.ANNOTATION_DRAIN_STARTED not in found[0]["metadata"].get("annotations", {})


# --- the route ----------------------------------------------------------------------------------------------
def test_the_route_turns_to_the_pool_once_workers_and_picker_serve() -> None:
    fleet = with_pool()
    fleet.picker_ready = True
    fleet.step()
    fleet.step()
    assert made(fleet, INFERENCE_POOL) is not None and backends(fleet) == TO_ROUTER
    found = told(fleet.observed(), fleet)
    assert (
        found is not None and found[:2] == ("False", "PoolWaiting") and "until the workers serve" in found[2]
    )

    fleet.run()
    fleet.picker_ready = False
    decided = fleet.step()
    assert backends(fleet) == TO_ROUTER
    found = told(fleet.observed(), fleet)
    assert found is not None and found[:2] == ("False", "PoolWaiting") and "Service chat-epp" in found[2]
    # Nothing else tells of a picker that comes.
    assert decided.requeue_seconds == fleet.settings.picker_check_seconds

    fleet.picker_ready = True
    fleet.step()
    assert backends(fleet) == TO_POOL
    found = told(fleet.observed(), fleet)
    assert found is not None and found[:2] == ("True", "RouteMade")
    assert "past the router" in found[2] and "chat-epp:9002" in found[2]


def test_a_picker_of_which_nothing_is_known_is_none() -> None:
    fleet = with_pool()
    fleet.step()
    fleet.run()
    fleet.picker_ready = None
    fleet.step()
    fleet.step()
    assert backends(fleet) == TO_ROUTER


def test_it_stays_there_when_the_picker_fails_for_failure_mode_says_what_then() -> None:
    fleet = turned()
    for ready in (None, False):
        fleet.picker_ready = ready
        fleet.settle()
        assert backends(fleet) == TO_POOL


def test_no_gateway_s_timeout_cuts_a_stream_here_either() -> None:
    route = made(turned(), HTTP_ROUTE)
    assert route is not None
    (rule,) = route["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    assert [match["path"] for match in rule["matches"]] == [{"type": "PathPrefix", "value": "/v1"}]


def test_the_route_turns_back_before_the_pool_goes() -> None:
    fleet = turned()
    fleet.edit(router={"gateway": {"parents": PARENTS}})
    first = fleet.step()
    assert backends(fleet) == TO_ROUTER and made(fleet, INFERENCE_POOL) is not None
    assert first.removals == ()
    fleet.settle()
    assert made(fleet, INFERENCE_POOL) is None and backends(fleet) == TO_ROUTER
    found = told(fleet.observed(), fleet)
    assert found is not None and found[:2] == ("True", "RouteMade") and "to the router" in found[2]


def test_both_go_when_no_gateway_is_asked_for_any_more() -> None:
    fleet = turned()
    fleet.edit(router={})
    fleet.settle()
    assert made(fleet, INFERENCE_POOL) is None and made(fleet, HTTP_ROUTE) is None
    assert told(fleet.observed(), fleet) is None


def test_a_change_of_mode_turns_back_to_the_router_first() -> None:
    fleet = turned()
    roles = {"minReplicas": 1, "maxReplicas": 2}
    del fleet.service["spec"]["workers"]
    fleet.edit(mode="Disaggregated", prefill=roles, decode=roles, router={"gateway": {"parents": PARENTS}})
    fleet.step()
    assert backends(fleet) == TO_ROUTER and made(fleet, INFERENCE_POOL) is not None
    fleet.settle()
    assert made(fleet, INFERENCE_POOL) is None and fleet.counts() == {"prefill": 1, "decode": 1}


# --- what may be missing ------------------------------------------------------------------------------------
def test_a_cluster_without_the_kind_is_told_of_and_served_through_the_router() -> None:
    fleet = turned()
    del fleet.objects[POOL]
    refusal = Refusal(
        INFERENCE_POOL.plural, "the cluster has no InferencePool (inference.networking.k8s.io/v1)"
    )
    without = fleet.observed()
    observed = replace(without, refusals=(refusal,))
    found = told(observed, fleet)
    assert found is not None and found[:2] == ("False", "PoolRefused")
    assert "has no InferencePool" in found[2] and "leads to the router" in found[2]
    assert told(observed, fleet, "Ready") == told(without, fleet, "Ready")
    routes = [one for one in plan(observed, fleet.now, fleet.settings).objects if one.kind is HTTP_ROUTE]
    assert routes[0].manifest["spec"]["rules"][0]["backendRefs"] == TO_ROUTER
    # It is tried again, for the kind may come.
    assert plan(observed, fleet.now, fleet.settings).requeue_seconds is not None


def test_a_pool_that_is_taken_away_is_not_led_to() -> None:
    fleet = turned()
    del fleet.objects[POOL]
    fleet.step()
    assert backends(fleet) == TO_ROUTER
    fleet.settle()
    assert backends(fleet) == TO_POOL


def test_somebody_else_s_pool_is_left_as_it_is_and_not_led_to() -> None:
    fleet = turned()
    del fleet.objects[POOL]
    observed = replace(fleet.observed(), foreign=frozenset({POOL}), picker_ready=True)
    decided = plan(observed, fleet.now, fleet.settings)
    assert not [one for one in decided.objects if one.kind is INFERENCE_POOL] and not decided.removals
    found = told(observed, fleet)
    assert found is not None and found[:2] == ("False", "NameConflict")
    assert "InferencePool chat exists" in found[2] and "leads to the router" in found[2]
    assert told(observed, fleet, "Ready") == ("True", "AllReady", "everything that was asked for serves")


def test_neither_kind_is_watched_for_a_cluster_need_not_have_them() -> None:
    assert not {HTTP_ROUTE, INFERENCE_POOL} & set(WATCHED)


@pytest.mark.parametrize(
    ("slices", "ready"),
    [
        ([], False),
        ([{"endpoints": None}], False),
        ([{"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}]}], False),
        ([{"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]}], True),
        ([{"endpoints": [{"addresses": ["10.0.0.1"]}]}], True),
        ([{"endpoints": []}, {"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}]}], True),
    ],
)
def test_a_picker_is_there_when_one_of_its_endpoints_is_ready(
    slices: list[dict[str, Any]], ready: bool
) -> None:
    assert has_ready_endpoint(slices) is ready


# --- what cannot be -----------------------------------------------------------------------------------------
def test_prefill_and_decode_are_paired_by_the_router_alone() -> None:
    parsed, sentence = read_spec(spec(router={"gateway": WISH}))
    assert parsed is None and sentence is not None
    assert "inferencePool is for mode Colocated" in sentence


@pytest.mark.parametrize(("scaling", "refused"), [("Auto", True), ("External", False), ("Off", False)])
def test_a_role_that_our_autoscaler_lets_sleep_would_never_be_woken(scaling: str, refused: bool) -> None:
    wish = colocated(
        router={"gateway": WISH},
        workers={"minReplicas": 0, "maxReplicas": 2},
        autoscaling={"mode": scaling},
        slo={"ttft": "1s", "tpot": "40ms"},
    )
    parsed, sentence = read_spec(wish)
    assert (parsed is None) is refused
    assert not refused or "workers.minReplicas" in str(sentence)


@pytest.mark.parametrize("name", ["", "Chat", "chat.epp", "9epp", "a" * 64])
def test_a_picker_has_the_name_of_a_service(name: str) -> None:
    gateway = {"parents": PARENTS, "inferencePool": {"endpointPicker": {"name": name}}}
    assert read_spec(colocated(router={"gateway": gateway}))[0] is None


# --- past the router ----------------------------------------------------------------------------------------
def test_the_network_policy_lets_gateway_and_picker_in_where_there_is_a_pool() -> None:
    def rules(wish: dict[str, Any]) -> list[Any]:
        objects = Fleet(wish).plan().objects
        (policy,) = [one.manifest for one in objects if one.kind is NETWORK_POLICY]
        return list(policy["spec"]["ingress"])

    without = rules(colocated(router={"gateway": {"parents": PARENTS}}))
    assert without == rules(colocated())
    long = [*PARENTS, {"name": "g" * 64}]
    *same, opened = rules(colocated(router={"gateway": {**WISH, "parents": long}}))
    assert same == without
    assert opened["ports"] == [{"port": names.ENGINE_PORT, "protocol": "TCP"}]
    picker, gateways = opened["from"]
    # The picker is in the service's own namespace, its gateway anywhere.
    assert picker == {"podSelector": {"matchLabels": {"inferencepool": "chat-epp"}}}
    assert gateways["namespaceSelector"] == {}
    (label,) = gateways["podSelector"]["matchExpressions"]
    assert (label["key"], label["values"]) == ("gateway.networking.k8s.io/gateway-name", ["public"])


def drained_after(fleet: Fleet) -> float:
    """Seconds from the label's going until an idle worker is deleted."""
    fleet.scale(names.WORKERS, 1)
    started = fleet.now
    for _ in range(400):
        fleet.step()
        if any(pod["metadata"].get("deletionTimestamp") for pod in fleet.pods()):
            return fleet.now - started
        fleet.now += 0.5
    raise AssertionError("it never goes")


def test_a_drain_waits_longer_for_those_that_cannot_be_asked_whom_they_list() -> None:
    settings = Fleet().settings
    past = turned()
    past.scale(names.WORKERS, 2)
    past.settle()
    usual = Fleet(colocated())
    usual.settle()
    usual.scale(names.WORKERS, 2)
    usual.settle()
    assert drained_after(usual) == pytest.approx(
        settings.drain_settle_seconds + settings.drain_quiet_seconds, abs=0.5
    )
    assert drained_after(past) == pytest.approx(
        settings.past_router_settle_seconds + settings.drain_quiet_seconds, abs=0.5
    )


def test_what_comes_past_the_router_after_the_label_went_is_waited_for() -> None:
    fleet = turned()
    fleet.scale(names.WORKERS, 2)
    fleet.settle()
    fleet.scale(names.WORKERS, 1)
    fleet.step()
    (leaving,) = [pod for pod in fleet.pods() if names.LABEL_SERVING not in pod["metadata"]["labels"]]
    name = leaving["metadata"]["name"]
    for second in range(60):
        fleet.now += 1
        # One request after the other, each sent before the picker had heard.
        fleet.busy[name] = 1.0 if second >= 9 else 0.0
        fleet.step()
    assert not fleet.pod(name)["metadata"].get("deletionTimestamp")
    fleet.busy[name] = 0.0
    fleet.settle()
    assert [pod["metadata"]["name"] for pod in fleet.pods()] != [] and len(fleet.pods()) == 1
