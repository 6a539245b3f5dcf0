"""etcd, API server, controller-manager and scheduler: the same for both forms.

The command lines are pure functions of a `Layout`; `start` runs them and waits until the API answers.
"""

import socket
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import audit, pki, processes
from e2e.cluster.api import ApiClient
from e2e.cluster.errors import ClusterError

SERVICE_RANGE = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"


@dataclass(frozen=True)
class Layout:
    """Where one control plane lives."""

    folder: Path
    name: str
    address: str
    """IP address the API server advertises; the light form uses 127.0.0.1."""
    api_port: int
    etcd_port: int
    etcd_peer_port: int
    scheduler: bool
    controller_manager_args: tuple[str, ...] = ()

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.api_port}"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def clients(self) -> list[str]:
        return ["admin", "controller-manager", "front-proxy"] + (["scheduler"] if self.scheduler else [])


def free_ports(count: int) -> list[int]:
    """TCP ports of the loopback that nobody holds now; held together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def etcd_command(layout: Layout, binary: Path) -> list[str]:
    client, peer = f"http://127.0.0.1:{layout.etcd_port}", f"http://127.0.0.1:{layout.etcd_peer_port}"
    return [
        str(binary),
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # a test cluster loses nothing that matters with the machine
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver_command(layout: Layout, binary: Path) -> list[str]:
    keys = layout.pki
    # The light form must not be reachable from outside; the full form is reached at the node's address
    # by pods, and on loopback by this machine.
    bind = "127.0.0.1" if layout.address == "127.0.0.1" else "0.0.0.0"
    return [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{layout.etcd_port}",
        f"--bind-address={bind}",
        f"--secure-port={layout.api_port}",
        f"--advertise-address={layout.address}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--audit-policy-file={layout.folder / 'audit-policy.yaml'}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=2000",
        # Aggregated APIs (custom metrics for an HPA) authenticate the API server by this certificate.
        f"--requestheader-client-ca-file={keys / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={keys / 'front-proxy.crt'}",
        f"--proxy-client-key-file={keys / 'front-proxy.key'}",
        "--enable-aggregator-routing=true",
        *(
            [
                "--kubelet-preferred-address-types=InternalIP",
                f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
                f"--kubelet-client-key={keys / 'kubelet-client.key'}",
            ]
            if layout.address != "127.0.0.1"
            else [
                # An advertised loopback address is refused as an endpoint, and nothing reads it there.
                "--endpoint-reconciler-type=none",
            ]
        ),
    ]


def controller_manager_command(layout: Layout, binary: Path) -> list[str]:
    config = layout.folder / "controller-manager.kubeconfig"
    return [
        str(binary),
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--secure-port=0",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.pki / 'sa.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        # Tests wait for these loops; the defaults of 15 s and of 20 requests/s are for large clusters.
        "--horizontal-pod-autoscaler-sync-period=5s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        *layout.controller_manager_args,
    ]


def scheduler_command(layout: Layout, binary: Path) -> list[str]:
    config = layout.folder / "scheduler.kubeconfig"
    return [
        str(binary),
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--secure-port=0",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def prepare(layout: Layout, *, extra_clients: tuple[str, ...] = ()) -> None:
    """Write keys, kubeconfigs and the audit policy."""
    clients = [*layout.clients, *extra_clients]
    names = [f"IP:{ip}" for ip in dict.fromkeys(["127.0.0.1", KUBERNETES_SERVICE, layout.address])]
    names += ["DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc"]
    names += ["DNS:kubernetes.default.svc.cluster.local"]
    pki.make(layout.pki, names=names, clients=clients)
    for client in clients:
        target = layout.kubeconfig if client == "admin" else layout.folder / f"{client}.kubeconfig"
        pki.write_kubeconfig(target, pki=layout.pki, client=client, server=layout.server, context=layout.name)
    (layout.folder / "audit-policy.yaml").write_text(audit.POLICY)


def start(layout: Layout, programs: dict[str, Path], *, within_seconds: float = 60) -> ApiClient:
    """Start the components of a prepared layout; returns when pods could be created."""
    folder = layout.folder
    etcd = processes.spawn("etcd", etcd_command(layout, programs["etcd"]), folder=folder)
    apiserver = processes.spawn(
        "kube-apiserver", apiserver_command(layout, programs["kube-apiserver"]), folder=folder
    )
    api = ApiClient(layout.server, pki=layout.pki)
    running = [etcd, apiserver]
    processes.wait_for(
        "the API server", lambda: api.answers("/readyz"), processes=running, within_seconds=within_seconds
    )
    running.append(
        processes.spawn(
            "kube-controller-manager",
            controller_manager_command(layout, programs["kube-controller-manager"]),
            folder=folder,
        )
    )
    if layout.scheduler:
        running.append(
            processes.spawn(
                "kube-scheduler", scheduler_command(layout, programs["kube-scheduler"]), folder=folder
            )
        )
    # Pods are refused until the controller-manager has made the namespace's service account.
    processes.wait_for(
        "the default service account",
        lambda: api.answers("/api/v1/namespaces/default/serviceaccounts/default"),
        processes=running,
        within_seconds=within_seconds,
    )
    return api


def check_name(name: str) -> str:
    """`name` where it can be a folder and part of a name of an interface; ClusterError otherwise."""
    if not name or len(name) > 40 or not all(c.isascii() and (c.isalnum() or c in "-_") for c in name):
        raise ClusterError(f"{name!r} is no name for a cluster: use letters, digits, - and _ (at most 40)")
    return name
