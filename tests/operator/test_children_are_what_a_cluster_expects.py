"""Router, Service, RBAC, budgets, NetworkPolicy."""

import re
from typing import Any

import pytest

from tandem_api import names
from tandem_operator import permissions
from tandem_operator.watch.kinds import WATCHED
from tests.operator.fleet import Fleet, colocated, spec


def children(wish: dict[str, Any] | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    fleet = Fleet(wish)
    return {
        (apply.kind.plural, apply.manifest["metadata"]["name"]): apply.manifest
        for apply in fleet.plan().objects
    }


def router(wish: dict[str, Any] | None = None) -> dict[str, Any]:
    return children(wish)[("deployments", "chat-router")]["spec"]


def test_the_router_always_has_one_pod_serving_while_it_is_rolled_out() -> None:
    strategy = router()["strategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_router_replicas_are_what_is_said_also_zero(replicas: int) -> None:
    assert router(spec(router={"replicas": replicas}))["replicas"] == replicas


def test_the_routers_selector_never_gains_a_label() -> None:
    """It is immutable: an upgrade that adds one could not be applied (D6)."""
    assert router()["selector"] == {
        "matchLabels": {"tandem.dev/component": "router", "tandem.dev/service": "chat"}
    }
    labels = router()["template"]["metadata"]["labels"]
    assert router()["selector"]["matchLabels"].items() <= labels.items()


def test_the_router_outlives_the_streams_it_carries() -> None:
    wish = spec(drain={"deadline": "120s"})
    pod = router(wish)["template"]["spec"]
    pause = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > 120 + pause
    words = pod["containers"][0]["args"]
    assert int(words[words.index("--request-timeout-secs") + 1]) >= 3600


def test_the_router_notices_a_dead_worker_soon() -> None:
    words = router()["template"]["spec"]["containers"][0]["args"]
    assert int(words[words.index("--health-check-interval-secs") + 1]) <= 10


def test_users_may_change_the_routers_template() -> None:
    template = {
        "spec": {"containers": [{"name": "router", "image": "mine", "resources": {"limits": {"cpu": "2"}}}]}
    }
    pod = router(spec(router={"template": template}))["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["router"]
    assert pod["containers"][0]["image"] == "mine"
    assert pod["containers"][0]["args"]


def test_the_service_reaches_the_router() -> None:
    service = children()[("services", "chat")]["spec"]
    labels = router()["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    ports = {port["name"]: (port["port"], port["targetPort"]) for port in service["ports"]}
    assert ports == {"http": (80, 8080), "metrics": (29000, 29000)}


def test_the_router_may_read_pods_and_nothing_else() -> None:
    made = children()
    assert made[("roles", "chat-router")]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    ]
    assert made[("rolebindings", "chat-router")]["roleRef"]["name"] == "chat-router"
    assert router()["template"]["spec"]["serviceAccountName"] == "chat-router"


def test_an_eviction_takes_one_worker_of_a_role_at_a_time() -> None:
    fleet = Fleet(spec(decode={"minReplicas": 4, "maxReplicas": 4}))
    fleet.settle()
    budget = fleet.objects[("poddisruptionbudgets", "chat-decode")]["spec"]
    # A number, because percentages need a controller with a scale.
    assert budget["minAvailable"] == 3
    assert "maxUnavailable" not in budget
    labels = fleet.pods(role="decode")[0]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert (
        not budget["selector"]["matchLabels"].items()
        <= fleet.pods(role="prefill")[0]["metadata"]["labels"].items()
    )


def test_workers_are_reached_by_their_router_their_peers_and_the_control_plane_only() -> None:
    policy = children()[("networkpolicies", "chat-workers")]["spec"]
    by_router, by_peers, by_watchers = policy["ingress"]
    assert by_router["ports"] == by_watchers["ports"] == [{"port": 8000, "protocol": "TCP"}]
    # UCX picks NIXL's data ports freely, so peers are not limited to some.
    assert "ports" not in by_peers
    assert by_peers["from"] == [{"podSelector": policy["podSelector"]}]
    control_plane = by_watchers["from"][0]["podSelector"]
    # Another service's workers carry part-of too; they are no control plane.
    assert {"key": names.LABEL_SERVICE, "operator": "DoesNotExist"} in control_plane["matchExpressions"]
    assert policy["policyTypes"] == ["Ingress"]


def test_what_is_watched_and_written_is_permitted() -> None:
    allowed = {(p.group, p.resource): set(p.verbs) for p in permissions.PERMISSIONS}
    for kind in WATCHED:
        group = kind.api_version.rpartition("/")[0]
        assert {"list", "watch"} <= allowed[(group, kind.plural)], kind
    for apply in Fleet().plan().objects:
        group = apply.kind.api_version.rpartition("/")[0]
        assert {"create", "patch"} <= allowed[(group, apply.kind.plural)], apply.kind


def test_the_operator_cannot_read_secrets() -> None:
    assert not any("secret" in permission.resource for permission in permissions.PERMISSIONS)


@pytest.mark.parametrize("wish", [spec(), colocated(), spec(slo={"ttft": "1s", "tpot": "40ms"})])
def test_every_label_is_one_that_kubernetes_takes(wish: dict[str, Any]) -> None:
    fleet = Fleet(wish)
    fleet.step()
    for manifest in fleet.objects.values():
        for value in manifest["metadata"]["labels"].values():
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value)
