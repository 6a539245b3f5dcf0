"""The full form: one machine as a whole Kubernetes with one node."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from e2e.cluster import (
    binaries,
    container_runtime,
    control_plane,
    network,
    node,
    prerequisites,
    processes,
)
from e2e.cluster.api import ApiClient, recorded_api
from e2e.cluster.audit import AuditLog
from e2e.cluster.container_runtime import Runtime
from e2e.cluster.control_plane import Layout
from e2e.cluster.errors import ClusterError
from e2e.cluster.light import clusters_dir, run_kubectl
from e2e.cluster.progress import say, step

DEFAULT_GPUS = 8
API_PORT = 6443
_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "helm",
    "coredns",
    "pause",
)
_CLIENTS = ("kubelet", "kubelet-client", "kube-proxy", "coredns")


class FullCluster:
    """etcd to CoreDNS and one node. Machine-wide: one at a time, whatever its name."""

    def __init__(self, name: str = "tandem") -> None:
        self.name = control_plane.check_name(name)
        self.folder = clusters_dir() / self.name
        self.kubeconfig = self.folder / "kubeconfig"
        self.audit_log = self.folder / "audit.log"
        self.audit = AuditLog(self.audit_log)
        self.runtime = Runtime(self.folder)
        self._api: ApiClient | None = None

    @property
    def api(self) -> ApiClient:
        if self._api is None:
            self._api = recorded_api(self.folder)
        return self._api

    def up(self, *, gpus: int = DEFAULT_GPUS) -> None:
        """Bring the cluster up, whatever is found; one that is whole is kept as it is."""
        prerequisites.require_root("the full form of the cluster")
        prerequisites.install(prerequisites.NODE)
        programs = binaries.ensure(_PROGRAMS)
        other = _other_full(self.name)
        if other:
            raise ClusterError(
                f"the full cluster {other} is up, and a machine holds one: "
                f"python -m e2e.cluster down --name {other}"
            )
        if self.running():
            if node.gpus(self.api) != gpus:
                node.set_gpus(self.api, gpus)
            say(f"cluster {self.name} is up already")
            return
        if self.folder.exists() or network.left_behind():
            with step("removing what an earlier cluster left"):
                self.down()
        with step(f"cluster {self.name}"):
            self._start(programs, gpus)

    def _start(self, programs: dict[str, Path], gpus: int) -> None:
        self.folder.mkdir(parents=True)
        etcd_port, peer_port = control_plane.free_ports(2)
        layout = Layout(
            folder=self.folder,
            name=self.name,
            address=network.NODE_ADDRESS,
            api_port=API_PORT,
            etcd_port=etcd_port,
            etcd_peer_port=peer_port,
            scheduler=True,
        )
        (self.folder / "cluster.json").write_text(json.dumps({"form": "full", "server": layout.server}))
        network.set_up(self.folder)
        with step("control plane"):
            control_plane.prepare(layout, extra_clients=_CLIENTS)
            self._api = control_plane.start(layout, programs)
        node.start_service_proxy(self.folder, programs["kube-proxy"])
        node.start_dns(self.folder, programs["coredns"], self.api)
        with step("containerd"):
            container_runtime.start(self.runtime)
            self._load_pause(programs["pause"])
        with step("node"):
            node.start_kubelet(self.runtime, programs["kubelet"], self.api)
        node.set_gpus(self.api, gpus)
        dead = [p for p in processes.recorded(self.folder) if not p.alive]
        if dead:
            raise ClusterError(f"{dead[0].name} ended; the end of its log:\n{dead[0].log_tail()}")

    def _load_pause(self, program: Path) -> None:
        # Here, not at the top: the images package stands on this one.
        from e2e.images.archive import single_binary_image

        if container_runtime.PAUSE_IMAGE in self.runtime.ctr("images", "list", "-q").split():
            return
        archive = self.folder / "pause.tar"
        single_binary_image(program, name=container_runtime.PAUSE_IMAGE, target=archive)
        self.runtime.ctr("images", "import", str(archive))
        archive.unlink()

    def down(self, *, purge: bool = False) -> None:
        """Remove everything but the image store (that too with `purge`); from any state."""
        prerequisites.require_root("the full form of the cluster")
        self._api = None
        recorded = processes.recorded(self.folder)
        by_name = {p.name: p for p in recorded}
        # First those that would bring pods back, then pods, then the rest.
        processes.stop([by_name[n] for n in ("kubelet", "kube-proxy") if n in by_name], grace_seconds=2)
        container_runtime.stop_pods(self.runtime)
        processes.stop([p for p in recorded if p.name == "containerd"], grace_seconds=5)
        processes.stop([p for p in recorded if p.name != "containerd"], grace_seconds=0)
        container_runtime.clear(self.runtime)
        network.tear_down(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        if purge:
            shutil.rmtree(self.runtime.store, ignore_errors=True)
        left = self.left_behind()
        if left:
            raise ClusterError(f"could not remove: {', '.join(left)}")

    def left_behind(self) -> list[str]:
        """What a removed cluster would still hold on this machine, in words; empty is as it should be."""
        found = network.left_behind()
        found += [f"mount {m}" for m in container_runtime.mounts_below(self.folder)]
        found += [f"process {p.name} ({p.pid})" for p in processes.recorded(self.folder) if p.alive]
        if self.folder.exists():
            found.append(str(self.folder))
        return found

    def running(self) -> bool:
        """True when every component lives, the API answers and the node is Ready."""
        return bool(self.folder.exists()) and all(ok for _, ok, _ in self.components())

    def components(self) -> list[tuple[str, bool, str]]:
        """(name, well, words) for each component."""
        recorded = {p.name: p for p in processes.recorded(self.folder)}
        names = [n for n in _PROGRAMS if n not in ("kubectl", "helm", "pause")] + ["containerd"]
        found = []
        for name in names:
            process = recorded.get(name)
            alive = process is not None and process.alive
            words = (
                f"pid {process.pid}"
                if process and alive
                else f"ended; log {process.log}"
                if process
                else "absent"
            )
            found.append((name, alive, words))
        found.append(("node Ready", *_probe(lambda: node.node_ready(self.api))))
        return found

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60) -> str:
        """Run kubectl against this cluster; its standard output. ClusterError with what it said otherwise."""
        return run_kubectl(self.kubeconfig, *arguments, stdin=stdin, timeout_seconds=timeout_seconds)


def _probe(condition: Callable[[], bool]) -> tuple[bool, str]:
    try:
        well = condition()
    except ClusterError as error:
        return False, str(error)
    return well, "yes" if well else "no"


def _other_full(name: str) -> str | None:
    """Name of another full cluster with a living process."""
    for record in clusters_dir().glob("*/cluster.json"):
        folder = record.parent
        try:
            full = json.loads(record.read_text()).get("form") == "full"
        except (OSError, ValueError):
            continue
        if full and folder.name != name and any(p.alive for p in processes.recorded(folder)):
            return os.path.basename(folder)
    return None
