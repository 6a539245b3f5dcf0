"""router.gateway on the real API server: without the Gateway API's CRDs, then with the published ones."""

from collections.abc import Callable

import pytest

from tandem_api import names
from tests.integration.chart.conftest import SERVICES, Component, Site, eventually
from tests.integration.published_crds import http_route_crd

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"


def test_a_route_comes_with_the_kind_and_goes_with_the_wish(
    site: Site, start: Callable[..., Component]
) -> None:
    crd = http_route_crd()
    site.install()
    gateway = {"parents": [{"name": "public"}], "hostnames": ["chat.example.com"]}
    site.apply("chat", router={"gateway": gateway})
    operator = start("operator", "--port", "0", "--host", "127.0.0.1")

    def told() -> tuple[str, str] | None:
        return site.told("chat", "GatewayReady")

    # Without the kind: it is said, and everything else is made.
    eventually(lambda: told() == ("False", "RouteRefused"), what="the absence is told")
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    eventually(lambda: site.get(f"{deployments}/{names.router_name('chat')}"), what="the router is made")
    eventually(lambda: site.items("/api/v1/namespaces/default/pods"), what="a worker is made")

    # With it: a route that the published schema takes.
    site.cluster.kubectl("apply", "--server-side", "-f", str(crd))
    eventually(lambda: told() == ("True", "RouteMade"), what="the route is made")
    route = site.get(f"{ROUTES}/chat")
    assert route is not None and route["spec"]["hostnames"] == ["chat.example.com"]
    assert route["spec"]["rules"][0]["timeouts"]["request"] == "0s"

    # The server's defaults in it are no difference: nothing is written again.
    since = site.cluster.audit.mark()
    site.cluster.api.patch(f"{SERVICES}/chat", {"metadata": {"annotations": {"look": "again"}}})
    site.change("chat", drain={"deadline": "60s"})
    writes = site.cluster.audit.writes_since(since, user=operator.user)
    assert not [write for write in writes if "httproutes" in write.resource]

    # And it goes with the wish.
    site.cluster.api.patch(f"{SERVICES}/chat", {"spec": {"router": {"gateway": None}}})
    eventually(lambda: site.get(f"{ROUTES}/chat") is None, what="the route is gone")
    eventually(lambda: told() is None, what="the condition is gone")
    assert "Traceback" not in operator.log.read_text() and "orbidden" not in operator.log.read_text()
    operator.stop()
    site.uninstall()
