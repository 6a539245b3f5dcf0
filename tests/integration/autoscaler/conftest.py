"""A service with pools and pods on the real API server, its engines played by HTTP servers on loopback addresses.

There is no kubelet here: the test gives the pods their status, and each pod an address of its own in 127.0.0.0/8, at
which a server exports vLLM's metrics on the worker's port.
"""

import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from e2e.cluster import LightCluster
from tandem_api import names
from tandem_api.kubernetes.client import ApiServer, connect
from tests.autoscaler.exported import Exported

_addresses = (f"127.66.{high}.{low}" for high, low in itertools.product(range(1, 250), range(1, 250)))


class Engine:
    """One worker's /metrics, and what it exports."""

    def __init__(self, address: str, port: int = names.ENGINE_PORT) -> None:
        self.address = address
        self.exported = Exported()
        exported = self.exported

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exported.text().encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class World:
    """One namespace with one service, made as the operator would make it."""

    def __init__(self, cluster: LightCluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.engines: dict[str, Engine] = {}
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        account = {"metadata": {"name": "default", "namespace": namespace}}
        cluster.api.create_missing(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)

    def _path(self, plural: str, name: str = "") -> str:
        path = f"/apis/{names.API_VERSION}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    def create_service(self, name: str = "chat", **spec: Any) -> None:
        """A disaggregated service with both pools at one replica."""
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": names.INFERENCE_SERVICE,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "mode": "Disaggregated",
                "model": {"uri": "path:///model"},
                "slo": {"ttft": "1s", "tpot": "100ms"},
                "prefill": {"minReplicas": 1, "maxReplicas": 4},
                "decode": {"minReplicas": 1, "maxReplicas": 4},
                "autoscaling": {"scaleDown": {"confirm": "1s"}},
                **spec,
            },
        }
        self.cluster.api.post(self._path(names.INFERENCE_SERVICES), manifest)
        for role in (names.PREFILL, names.DECODE):
            pool = {
                "apiVersion": names.API_VERSION,
                "kind": names.WORKER_POOL,
                "metadata": {"name": names.pool_name(name, role), "namespace": self.namespace},
                "spec": {"service": name, "role": role, "replicas": 1},
            }
            self.cluster.api.post(self._path(names.WORKER_POOLS), pool)

    def add_worker(self, role: str, name: str = "chat") -> Engine:
        """A ready worker pod with an engine behind it."""
        address = next(_addresses)
        pod = f"{name}-{len(self.engines)}"
        labels = {**names.managed_labels(name, names.COMPONENT_WORKER), **names.worker_labels(name, role)}
        labels[names.LABEL_SERVING] = "true"
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        container = {"name": names.ENGINE_CONTAINER, "image": "engine"}
        self.cluster.api.post(
            path,
            {
                "metadata": {"name": pod, "labels": labels},
                "spec": {"containers": [container], "automountServiceAccountToken": False},
            },
        )
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }
        self.cluster.api.patch(f"{path}/{pod}/status", {"status": status})
        engine = Engine(address)
        self.engines[pod] = engine
        return engine

    def service(self, name: str = "chat") -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.api.get(self._path(names.INFERENCE_SERVICES, name))
        return found

    def status(self, name: str = "chat") -> dict[str, Any]:
        return self.service(name).get("status") or {}

    def condition(self, kind: str, name: str = "chat") -> dict[str, Any]:
        """The condition, or an empty dict."""
        conditions = self.status(name).get("conditions") or []
        return next((item for item in conditions if item["type"] == kind), {})

    def replicas(self, role: str, name: str = "chat") -> int:
        return int(
            self.cluster.api.get(self._path(names.WORKER_POOLS, names.pool_name(name, role)))["spec"][
                "replicas"
            ]
        )

    def edit(self, patch: dict[str, Any], name: str = "chat") -> None:
        self.cluster.api.patch(self._path(names.INFERENCE_SERVICES, name), patch)

    def events(self, reason: str) -> list[dict[str, Any]]:
        found = self.cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        return [event for event in found if event.get("reason") == reason]

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close()


@pytest.fixture
def world(cluster: LightCluster, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(cluster, f"t-{abs(hash(request.node.nodeid)) % 10**10}")
    yield made
    made.close()


@pytest.fixture
async def api(cluster: LightCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    async with connect() as server:
        yield server


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Advance = Callable[[float], None]
