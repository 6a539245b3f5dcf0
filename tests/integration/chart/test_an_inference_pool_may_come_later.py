"""router.gateway.inferencePool on the real API server: without the Inference Extension's CRD, then with the published
one, with the chart's own rights."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tandem_api import names
from tests.integration.chart.conftest import SERVICES, Component, Manifest, Site, eventually
from tests.integration.published_crds import http_route_crd, inference_pool_crd

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
NAMESPACED = "/namespaces/default"
ROUTES = f"/apis/gateway.networking.k8s.io/v1{NAMESPACED}/httproutes"
POOLS = f"/apis/inference.networking.k8s.io/v1{NAMESPACED}/inferencepools"
SLICES = f"/apis/discovery.k8s.io/v1{NAMESPACED}/endpointslices"
PODS = f"/api/v1{NAMESPACED}/pods"
GATEWAY = {"parents": [{"name": "public"}], "inferencePool": {"endpointPicker": {"name": "chat-epp"}}}


@pytest.fixture(scope="module")
def crds() -> tuple[Path, Path]:
    """Of HTTPRoute and of InferencePool."""
    return http_route_crd(), inference_pool_crd()


@pytest.fixture
def engine_address() -> Iterator[str]:
    """Where an idle engine answers /metrics."""

    class Idle(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    address = "127.88.7.3"
    server = ThreadingHTTPServer((address, names.ENGINE_PORT), Idle)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield address
    server.shutdown()
    server.server_close()


class Scene:
    """The service `chat` as its user and as the others in its cluster see it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def told(self) -> tuple[str, str] | None:
        return self.site.told("chat", "GatewayReady")

    def backend(self) -> str | None:
        """Kind and name of what the HTTPRoute leads to."""
        route = self.site.get(f"{ROUTES}/chat")
        if route is None:
            return None
        (backend,) = route["spec"]["rules"][0]["backendRefs"]
        return f"{backend['kind']} {backend['name']}"

    def pool(self) -> Manifest | None:
        return self.site.get(f"{POOLS}/chat")

    def workers(self) -> list[Manifest]:
        return [
            pod
            for pod in self.site.items(PODS)
            if pod["metadata"]["labels"].get(names.LABEL_COMPONENT) == names.COMPONENT_WORKER
        ]

    def in_the_pool(self) -> set[str]:
        """Names of the pods that the API server itself selects by the pool's own selector."""
        labels = (self.pool() or {})["spec"]["selector"]["matchLabels"]
        selector = "%2C".join(f"{key}%3D{value}" for key, value in labels.items())
        return {pod["metadata"]["name"] for pod in self.site.items(f"{PODS}?labelSelector={selector}")}

    def let_serve(self, pod: Manifest, address: str) -> None:
        """As its kubelet would say it."""
        state = {
            "name": "engine", "image": "x", "imageID": "x", "restartCount": 0, "ready": True, "started": True,
            "state": {"running": {}},
        }  # fmt: skip
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [state],
        }
        self.site.cluster.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})

    def picker_comes(self, *, ready: bool) -> None:
        """As the endpoint slice controller would say it of the picker's Service."""
        manifest: dict[str, Any] = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "chat-epp-1", "labels": {"kubernetes.io/service-name": "chat-epp"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.20.30.40"], "conditions": {"ready": ready}}],
            "ports": [{"name": "grpc", "port": 9002}],
        }
        path = f"{SLICES}/chat-epp-1?fieldManager=slices&force=true"
        self.site.cluster.api.patch(path, manifest, kind="apply-patch")

    def ask_for(self, gateway: Manifest | None) -> None:
        self.site.cluster.api.patch(f"{SERVICES}/chat", {"spec": {"router": {"gateway": gateway}}})


def test_a_pool_comes_with_the_kind_and_goes_with_the_wish(
    site: Site, start: Callable[..., Component], crds: tuple[Path, Path], engine_address: str
) -> None:
    scene = Scene(site)
    of_routes, of_pools = crds
    site.install()
    site.cluster.kubectl("apply", "--server-side", "-f", str(of_routes))
    site.apply("chat", workers={"replicas": 2, "gpus": 0}, router={"gateway": GATEWAY})
    operator = start("operator", "--port", "0", "--host", "127.0.0.1")

    # Without the kind: it is said, and the route leads to the router.
    eventually(lambda: scene.told() == ("False", "PoolRefused"), what="the absence is told")
    assert scene.backend() == "Service chat"
    pods = eventually(lambda: len(found := scene.workers()) == 2 and found, what="the workers are made")

    # With it: a pool that the published schema takes. The route waits for workers, and for who chooses among them.
    site.cluster.kubectl("apply", "--server-side", "-f", str(of_pools))
    pool = eventually(scene.pool, what="the pool is made")
    reference = {"name": "chat-epp", "port": {"number": 9002}, "failureMode": "FailClose"}
    # The rest are the server's defaults.
    assert pool["spec"]["endpointPickerRef"] == {"group": "", "kind": "Service", **reference}
    assert pool["spec"]["targetPorts"] == [{"number": names.ENGINE_PORT}]
    eventually(lambda: scene.told() == ("False", "PoolWaiting"), what="it is told what the route waits for")
    for pod in pods:
        scene.let_serve(pod, engine_address)
    scene.picker_comes(ready=False)
    eventually(
        lambda: "chat-epp has a ready endpoint" in str((site.service("chat") or {})["status"]["conditions"]),
        what="the picker is what is missing",
    )
    assert scene.backend() == "Service chat"
    scene.picker_comes(ready=True)
    eventually(lambda: scene.backend() == "InferencePool chat", what="the route turns to the pool")
    eventually(lambda: scene.told() == ("True", "RouteMade"), what="it is told")
    assert scene.in_the_pool() == {pod["metadata"]["name"] for pod in pods}

    # The server's defaults are no difference: nothing is written again.
    since = site.cluster.audit.mark()
    site.change("chat", drain={"deadline": "60s"})
    writes = site.cluster.audit.writes_since(since, user=operator.user)
    assert not [write for write in writes if write.resource in ("httproutes", "inferencepools")]

    # A worker that drains has left the pool while it is still there.
    site.cluster.api.patch(f"{SERVICES}/chat", {"spec": {"workers": {"replicas": 1}}})
    eventually(lambda: len(scene.in_the_pool()) == 1, what="the pool has one worker")
    assert len([pod for pod in scene.workers() if not pod["metadata"].get("deletionTimestamp")]) == 2

    # The pool goes with the wish, after the route has turned back; and comes back with it.
    scene.ask_for({**GATEWAY, "inferencePool": None})
    eventually(lambda: scene.pool() is None, what="the pool is gone")
    assert scene.backend() == "Service chat"
    scene.ask_for(GATEWAY)
    eventually(lambda: scene.backend() == "InferencePool chat", what="the route leads to a pool again")
    assert scene.pool() is not None

    scene.ask_for(None)
    eventually(lambda: scene.pool() is None and scene.backend() is None, what="both are gone")
    eventually(lambda: scene.told() is None, what="the condition is gone")

    # The garbage collector takes it with the service.
    scene.ask_for(GATEWAY)
    eventually(lambda: scene.backend() == "InferencePool chat", what="the route leads to a pool once more")
    site.cluster.api.delete(f"{SERVICES}/chat?propagationPolicy=Background")
    eventually(lambda: scene.pool() is None and scene.backend() is None, what="both went with the service")
    assert "Traceback" not in operator.log.read_text() and "orbidden" not in operator.log.read_text()
    operator.stop()
    site.uninstall()


def test_somebody_else_s_pool_is_left_as_it_is(
    site: Site, start: Callable[..., Component], crds: tuple[Path, Path]
) -> None:
    scene = Scene(site)
    site.install()
    for crd in crds:
        site.cluster.kubectl("apply", "--server-side", "-f", str(crd))
    theirs = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "other", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "theirs"}},
            "targetPorts": [{"number": 9999}],
            "endpointPickerRef": {"name": "their-picker", "port": {"number": 1}},
        },
    }
    eventually(lambda: site.get(POOLS), what="InferencePools are served")
    made = site.cluster.api.post(POOLS, theirs)
    site.apply("other", router={"gateway": GATEWAY})
    operator = start("operator", "--port", "0", "--host", "127.0.0.1")

    def told() -> str:
        return str(((site.service("other") or {}).get("status") or {}).get("conditions", []))

    eventually(lambda: "InferencePool other exists and is not this service's" in told(), what="it is told")
    left = site.get(f"{POOLS}/other")
    assert left is not None
    assert left["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert (site.get(f"{ROUTES}/other") or {})["spec"]["rules"][0]["backendRefs"][0]["kind"] == "Service"
    # And it outlives the service.
    site.cluster.api.patch(f"{SERVICES}/other", {"spec": {"router": {"gateway": None}}})
    eventually(lambda: site.get(f"{ROUTES}/other") is None, what="the route is gone")
    assert site.get(f"{POOLS}/other") is not None
    operator.stop()
    site.uninstall()
    assert scene.pool() is None
