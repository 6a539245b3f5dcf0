"""KEDA itself, built from its Go module: operator and metrics adapter beside the real API server, and a Prometheus.

Both run as processes of this machine with the rights that KEDA's own manifests give its service account. The API server
reaches the adapter as any aggregated API, through a Service; an EndpointSlice may not name a loopback address, so the
adapter listens on the machine's own.
"""

import base64
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import yaml

from e2e.cluster import LightCluster, binaries, pki, processes
from e2e.cluster.control_plane import free_ports
from tests.integration.accounts import account_kubeconfig
from tests.integration.conftest import Kubectl
from tests.integration.operator.conftest import Place, operator, place, start_operator
from tests.integration.waiting import eventually
from tests.real_prometheus import MISSING, PROGRAM, Running, started

__all__ = ["operator", "place", "start_operator"]  # fixtures that these tests take too

NAMESPACE = "keda"
ACCOUNT = "keda-operator"
# KEDA's own manifests, as in its config/ (kustomize).
MANIFESTS = (
    "crd/bases", "service_account/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml",
    "metrics-server/role.yaml", "metrics-server/role_binding.yaml",
)  # fmt: skip
# The adapter has a client of the API server for each of these.
_ADAPTERS_CLIENTS = ("authentication", "authorization", "lister")
API_SERVICE = "v1beta1.external.metrics.k8s.io"


def own_address() -> str:
    """An address of this machine that is not loopback. Nothing is sent: connecting a UDP socket only picks a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        address: str = probe.getsockname()[0]
    assert not address.startswith("127."), (
        "this machine has no address but loopback: KEDA's adapter needs one"
    )
    return address


@pytest.fixture(scope="session")
def keda(cluster: LightCluster, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """KEDA serves the external metrics API; the folder of its logs."""
    programs = binaries.ensure(["keda-operator", "keda-adapter"])
    folder = tmp_path_factory.mktemp("keda")
    kubectl("create", "namespace", NAMESPACE, check=True)
    source = binaries.sources("keda", binaries.KEDA_MODULE) / "config"
    for manifest in MANIFESTS:
        kubectl("apply", "--server-side", "-f", str(source / manifest), check=True)
    kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", check=True)
    address, (health, grpc, secure, metrics) = own_address(), free_ports(4)
    certificates = _certificates(folder / "certs", address)
    environment = {
        "KUBECONFIG": str(account_kubeconfig(cluster, NAMESPACE, ACCOUNT, folder / "kubeconfig")),
        "POD_NAMESPACE": NAMESPACE, "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE, "WATCH_NAMESPACE": "",
    }  # fmt: skip
    running = [
        processes.spawn(
            "keda-operator",
            [
                str(programs["keda-operator"]), "--enable-prometheus-metrics=false", f"--cert-dir={certificates}",
                f"--health-probe-bind-address=127.0.0.1:{health}", f"--metrics-service-bind-address=127.0.0.1:{grpc}",
            ],
            folder=folder, env=environment,
        ),
        processes.spawn(
            "keda-adapter",
            [
                str(programs["keda-adapter"]), f"--bind-address={address}", f"--secure-port={secure}",
                f"--port={metrics}", f"--metrics-service-address=localhost:{grpc}", f"--cert-dir={certificates}",
                f"--tls-cert-file={certificates / 'tls.crt'}", f"--tls-private-key-file={certificates / 'tls.key'}",
                *(f"--{use}-kubeconfig={environment['KUBECONFIG']}" for use in _ADAPTERS_CLIENTS),
            ],
            folder=folder, env=environment,
        ),
    ]  # fmt: skip
    try:
        _register(cluster, address, secure, certificates / "ca.crt")
        processes.wait_for(
            "the external metrics API", lambda: _available(cluster), processes=running, within_seconds=120
        )
        yield folder / "logs"
    finally:
        cluster.api.delete(f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")
        processes.stop(running, grace_seconds=10)
        for process in running:
            print(process.log_tail(60))


def _certificates(folder: Path, address: str) -> Path:
    """One authority and one certificate, by the names that KEDA looks for; the same pair serves and calls."""
    pki.make(
        folder, names=["DNS:localhost", f"IP:{address}", "DNS:keda-metrics-apiserver.keda.svc"], clients=[]
    )
    for kind in ("crt", "key"):
        shutil.copy(folder / f"apiserver.{kind}", folder / f"tls.{kind}")
    return folder


def _register(cluster: LightCluster, address: str, port: int, authority: Path) -> None:
    """The adapter as the API external.metrics.k8s.io, behind a Service without a selector."""
    name = "keda-metrics-apiserver"
    cluster.api.post(
        f"/api/v1/namespaces/{NAMESPACE}/services",
        {"metadata": {"name": name}, "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]}},
    )
    cluster.api.post(
        f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
        {
            "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
    )
    cluster.api.post(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {
            "metadata": {"name": API_SERVICE},
            "spec": {
                "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100,
                "versionPriority": 100, "service": {"namespace": NAMESPACE, "name": name},
                "caBundle": base64.b64encode(authority.read_bytes()).decode(),
            },
        },
    )  # fmt: skip


def _available(cluster: LightCluster) -> bool:
    found = cluster.api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


@dataclass
class Load:
    """Open requests, as the gates of a service's workers export them, and a Prometheus that scrapes them."""

    namespace: str
    requests: float | None = 0.0
    """None: nothing is exported."""
    prometheus: Running | None = None

    @property
    def url(self) -> str:
        assert self.prometheus is not None
        return self.prometheus.url

    def lose_the_series(self) -> None:
        """Prometheus answers, and knows nothing of the workers."""
        self.requests = None
        eventually(lambda: not _scraped(self.url), what="the series is gone")

    def lose_prometheus(self) -> None:
        assert self.prometheus is not None
        self.prometheus.process.terminate()
        self.prometheus.process.wait(20)


@pytest.fixture
def load(place: Place, tmp_path: Path) -> Iterator[Load]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    made = Load(place.namespace)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests = made.requests
            body = b"" if requests is None else f"tandem:requests_in_flight {requests}\n".encode()
            self.send_response(200)
            # Prometheus 3 takes no answer that does not say what it is.
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    labels = {"namespace": made.namespace, "pod": "chat-0"}
    targets = [{"targets": [f"127.0.0.1:{server.server_address[1]}"], "labels": labels}]
    settings = {
        "global": {"scrape_interval": "500ms"},
        "scrape_configs": [{"job_name": "workers", "static_configs": targets}],
    }
    try:
        with started(tmp_path, yaml.safe_dump(settings)) as made.prometheus:
            eventually(lambda: _scraped(made.url), what="Prometheus has scraped the workers")
            yield made
    finally:
        server.shutdown()
        server.server_close()


def _scraped(url: str) -> bool:
    """False while it starts (503), too."""
    try:
        answer = httpx.get(
            f"{url}/api/v1/query", params={"query": "tandem:requests_in_flight"}, trust_env=False
        )
    except httpx.HTTPError:
        return False
    return answer.status_code == 200 and bool(answer.json()["data"]["result"])
