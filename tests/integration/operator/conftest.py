"""The real operator process on the real API server; the kubelet is played by hand, the engines by small servers.

No node exists, so no pod address leads anywhere: every address that a test gives to a pod is on loopback.
"""

import contextlib
import http.server
import itertools
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import LightCluster
from e2e.cluster.errors import NotFound
from tandem_api import names
from tests.integration.waiting import eventually

Manifest = dict[str, Any]
_serial = itertools.count(1)
SERVICES = f"/apis/{names.API_VERSION}"


class Engine:
    """One engine's /metrics on a loopback address of its own."""

    def __init__(self) -> None:
        self.running = 0.0
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = (
                    f'vllm:num_requests_running{{engine="0"}} {engine.running}\n'
                    'vllm:num_requests_waiting{engine="0"} 0.0\nvllm:kv_cache_usage_perc{engine="0"} 0.0\n'
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        while True:
            self.ip = f"127.{random.randint(64, 200)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
            try:
                self._server = http.server.ThreadingHTTPServer((self.ip, names.ENGINE_PORT), Handler)
                break
            except OSError:
                continue
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Place:
    """One namespace, seen as a user and as a kubelet."""

    cluster: LightCluster
    namespace: str
    engines: dict[str, Engine] = field(default_factory=dict)

    # --- as a user ---------------------------------------------------------------------------------------
    def path(self, plural: str, name: str = "", group: str = "") -> str:
        root = (
            f"/apis/{group}" if group else (SERVICES if plural.endswith(("services", "pools")) else "/api/v1")
        )
        if plural == "services":
            root = "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def apply(self, name: str, spec: Manifest) -> Manifest:
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": names.INFERENCE_SERVICE,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        return self.cluster.api.patch(
            self.path(names.INFERENCE_SERVICES, name) + "?fieldManager=user&force=true",
            manifest,
            kind="apply-patch",
        )

    def delete(self, name: str) -> None:
        self.cluster.api.delete(self.path(names.INFERENCE_SERVICES, name) + "?propagationPolicy=Background")

    def scale(self, pool: str, replicas: int) -> None:
        self.cluster.api.patch(
            self.path(names.WORKER_POOLS, pool) + "/scale", {"spec": {"replicas": replicas}}
        )

    def service(self, name: str) -> Manifest:
        return self.cluster.api.get(self.path(names.INFERENCE_SERVICES, name))

    def condition(self, name: str, type_: str) -> Manifest | None:
        conditions = self.service(name).get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == type_), None)

    def items(self, plural: str, group: str = "") -> list[Manifest]:
        return self.cluster.api.get(self.path(plural, group=group))["items"]

    def told(self, reason: str) -> list[str]:
        """What the events of this reason say. An event follows its deed: wait for it (`eventually`)."""
        return [event["message"] for event in self.items("events") if event["reason"] == reason]

    def workers(
        self, service: str, *, role: str | None = None, serving: bool | None = None
    ) -> list[Manifest]:
        found = []
        for pod in self.items("pods"):
            labels = pod["metadata"].get("labels", {})
            if labels.get(names.LABEL_SERVICE) != service or labels.get(names.LABEL_COMPONENT) != "worker":
                continue
            if role is not None and labels[names.LABEL_ROLE] != role:
                continue
            if serving is not None and (labels.get(names.LABEL_SERVING) == "true") != serving:
                continue
            found.append(pod)
        return found

    # --- as a kubelet ------------------------------------------------------------------------------------
    def set_status(self, pod: Manifest, status: Manifest) -> None:
        self.cluster.api.patch(self.path("pods", pod["metadata"]["name"]) + "/status", {"status": status})

    def run(self, pod: Manifest) -> Engine:
        """Its engine serves and is idle."""
        name = pod["metadata"]["name"]
        engine = self.engines.setdefault(name, Engine())
        self.set_status(
            pod,
            {
                "phase": "Running",
                "podIP": engine.ip,
                "podIPs": [{"ip": engine.ip}],
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": "engine", "image": "x", "imageID": "x", "restartCount": 0, "ready": True,
                        "started": True, "state": {"running": {}},
                    }
                ],
            },
        )  # fmt: skip
        return engine

    def wait(self, pod: Manifest, reason: str, message: str, *, last: Manifest | None = None) -> None:
        """Its engine's container waits, as the kubelet would say it."""
        state: Manifest = {
            "name": "engine", "image": "x", "imageID": "", "restartCount": 1 if last else 0, "ready": False,
            "started": False, "state": {"waiting": {"reason": reason, "message": message}},
        }  # fmt: skip
        if last:
            state["lastState"] = {"terminated": last}
        conditions = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]
        self.set_status(pod, {"phase": "Pending", "conditions": conditions, "containerStatuses": [state]})

    def run_all(self, service: str, *, count: int) -> list[Manifest]:
        """Wait for so many workers and let them serve."""
        pods = eventually(
            lambda: (found := self.workers(service)) and len(found) == count and found,
            what=f"{count} workers of {service}",
        )
        for pod in pods:
            self.run(pod)
        return pods

    def run_router(self, service: str, ip: str | None = None) -> None:
        """No deployment controller's pods run here: say for them that the router is there."""
        addresses = {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
        name = names.router_name(service)
        path = self.path("deployments", name, group="apps/v1")
        eventually(
            lambda: name in [item["metadata"]["name"] for item in self.items("deployments", "apps/v1")]
        )
        routers = {names.LABEL_COMPONENT: names.COMPONENT_ROUTER, names.LABEL_SERVICE: service}
        status = {
            "phase": "Running",
            **addresses,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "router", "image": "x", "imageID": "x", "restartCount": 0, "ready": True,
                    "started": True, "state": {"running": {}},
                }
            ],
        }  # fmt: skip

        def serves() -> Any:
            for pod in self.items("pods"):
                if routers.items() <= pod["metadata"]["labels"].items():
                    # A router of a template that has just changed may be gone by now.
                    with contextlib.suppress(NotFound):
                        self.set_status(pod, status)
            return self.cluster.api.get(path).get("status", {}).get("readyReplicas")

        eventually(serves, what=f"the router of {service} is ready")

    def reason(self, service: str, type_: str = "Ready") -> str | None:
        condition = self.condition(service, type_)
        return condition["reason"] if condition else None


class Operator:
    """One operator process, limited to one namespace, so that tests do not see each other's services."""

    def __init__(self, cluster: LightCluster, namespace: str, log: Path, *, identity: str = "") -> None:
        self.identity = identity or f"op-{next(_serial)}"
        self.log = log
        self._cluster, self._namespace = cluster, namespace
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *extra: str) -> "Operator":
        command = [
            sys.executable, "-m", "tandem_operator.main", "--namespace", self._namespace, "--lease-namespace",
            self._namespace, "--port", "0", "--host", "127.0.0.1", "--identity", self.identity, *extra,
        ]  # fmt: skip
        environment = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        return self

    def stop(self, *, timeout_seconds: float = 15) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(timeout_seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def writes_since(self, mark: int) -> list[Any]:
        """What this process wrote, leases left out."""
        return self._cluster.audit.writes_since(mark, user_agent=f"tandem-operator/{self.identity}")


@pytest.fixture
def place(cluster: LightCluster) -> Iterator[Place]:
    namespace = f"operator-{os.getpid()}-{next(_serial)}"
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    found = Place(cluster, namespace)
    yield found
    for engine in found.engines.values():
        engine.close()
    cluster.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def start_operator(cluster: LightCluster, place: Place, tmp_path: Path) -> Iterator[Callable[..., Operator]]:
    started: list[Operator] = []

    def start(*extra: str, identity: str = "") -> Operator:
        number = len(started)
        operator = Operator(cluster, place.namespace, tmp_path / f"operator-{number}.log", identity=identity)
        started.append(operator)
        return operator.start(*extra)

    yield start
    for operator in started:
        if operator.process is not None and operator.process.poll() is None:
            operator.stop()
    for operator in started:
        text = operator.log.read_text()
        print(text)
        assert "Traceback" not in text, text


@pytest.fixture
def operator(start_operator: Callable[..., Operator]) -> Operator:
    """Started and leading: how long a busy machine takes to start Python is not what is tested."""
    started = start_operator()
    eventually(lambda: "leading as" in started.log.read_text(), seconds=120, what="the operator leads")
    return started


MODEL = {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"}


def disaggregated(**changes: Any) -> Manifest:
    """A small service with autoscaling External: its pools belong to the test."""
    return {
        "mode": "Disaggregated",
        "model": MODEL,
        "autoscaling": {"mode": "External"},
        "prefill": {"minReplicas": 1, "maxReplicas": 4},
        "decode": {"minReplicas": 1, "maxReplicas": 4},
        **changes,
    }


def colocated(**changes: Any) -> Manifest:
    return {
        "model": MODEL,
        "autoscaling": {"mode": "External"},
        "workers": {"minReplicas": 1, "maxReplicas": 4},
        **changes,
    }
