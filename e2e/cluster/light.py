"""The light form: a real API server for tests, without nodes or with fake ones."""

import atexit
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

from e2e.cluster import binaries, control_plane, kwok, processes
from e2e.cluster.api import ApiClient, recorded_api
from e2e.cluster.audit import AuditLog
from e2e.cluster.cache import cache_dir
from e2e.cluster.control_plane import Layout
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import step

_serial = itertools.count(1)


def clusters_dir() -> Path:
    return cache_dir() / "clusters"


class LightCluster:
    """etcd + kube-apiserver + controller-manager on free loopback ports; a context manager.

    With `kwok_nodes` > 0 also the scheduler and that many fake nodes. `name` is for the command line: without
    one the instance belongs to this process and is removed with it (or by the next one, if it was killed).
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        kwok_nodes: int = 0,
        controller_manager_args: tuple[str, ...] | list[str] = (),
        quiet: bool = True,
    ) -> None:
        self._owned = name is None
        self.name = control_plane.check_name(name or f"test-{os.getpid()}-{next(_serial)}")
        self.folder = clusters_dir() / self.name
        self.kubeconfig = self.folder / "kubeconfig"
        self.audit_log = self.folder / "audit.log"
        self.audit = AuditLog(self.audit_log)
        self._kwok_nodes = kwok_nodes
        self._controller_manager_args = tuple(controller_manager_args)
        self._quiet = quiet
        self._api: ApiClient | None = None

    @property
    def api(self) -> ApiClient:
        if self._api is None:
            self._api = recorded_api(self.folder)
        return self._api

    def start(self) -> "LightCluster":
        _remove_orphans()
        wanted = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"]
        wanted += ["kube-scheduler", "kwok"] if self._kwok_nodes else []
        programs = binaries.ensure(wanted, quiet=False)
        self.stop()
        self.folder.mkdir(parents=True)
        (self.folder / "owner.json").write_text(
            json.dumps([os.getpid(), processes.start_ticks(os.getpid())] if self._owned else None)
        )
        if self._owned:
            atexit.register(self.stop)
        try:
            self._start(programs)
        except BaseException:
            if self._owned:
                self.stop()
            else:
                processes.stop(processes.recorded(self.folder), grace_seconds=0)
            raise
        return self

    def _start(self, programs: dict[str, Path]) -> None:
        api_port, etcd_port, peer_port = control_plane.free_ports(3)
        layout = Layout(
            folder=self.folder,
            name=self.name,
            address="127.0.0.1",
            api_port=api_port,
            etcd_port=etcd_port,
            etcd_peer_port=peer_port,
            scheduler=self._kwok_nodes > 0,
            controller_manager_args=self._controller_manager_args,
        )
        with step("control plane", quiet=self._quiet):
            control_plane.prepare(layout, extra_clients=("kwok",) if self._kwok_nodes else ())
            (self.folder / "cluster.json").write_text(
                json.dumps({"form": "light", "server": layout.server, "kwok_nodes": self._kwok_nodes})
            )
            self._api = control_plane.start(layout, programs)
        if self._kwok_nodes:
            with step(f"{self._kwok_nodes} fake nodes", quiet=self._quiet):
                self._start_kwok(programs["kwok"])

    def _start_kwok(self, binary: Path) -> None:
        kwok_process = processes.spawn(
            "kwok",
            kwok.command(binary, kubeconfig=self.folder / "kwok.kubeconfig"),
            folder=self.folder,
        )
        for index in range(self._kwok_nodes):
            self.api.create_missing("/api/v1/nodes", kwok.node(index))
        processes.wait_for(
            "fake nodes Ready",
            lambda: kwok.ready_nodes(self.api) >= self._kwok_nodes,
            processes=[kwok_process],
            within_seconds=60,
        )

    def stop(self) -> None:
        """End every process and drop all state. Safe to call twice, and on a half-made instance."""
        self._api = None
        processes.stop(processes.recorded(self.folder), grace_seconds=0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def running(self) -> bool:
        """True when every recorded process lives and the API answers."""
        recorded = processes.recorded(self.folder)
        return bool(recorded) and all(p.alive for p in recorded) and self.api.answers("/readyz")

    def metrics(self) -> str:
        """The API server's metrics in Prometheus text."""
        return str(self.api.get("/metrics"))

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60) -> str:
        """Run kubectl against this cluster; its standard output. ClusterError with what it said otherwise."""
        return run_kubectl(self.kubeconfig, *arguments, stdin=stdin, timeout_seconds=timeout_seconds)

    def __enter__(self) -> "LightCluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def run_kubectl(
    kubeconfig: Path, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60
) -> str:
    program = binaries.ensure(["kubectl"])["kubectl"]
    try:
        done = subprocess.run(
            [str(program), f"--kubeconfig={kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"kubectl {' '.join(arguments)}: no end after {timeout_seconds:.0f} s") from None
    if done.returncode != 0:
        raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _remove_orphans() -> None:
    """Remove instances whose owning process was killed before it could."""
    for owner_file in clusters_dir().glob("*/owner.json"):
        try:
            owner = json.loads(owner_file.read_text())
        except (OSError, ValueError):
            # Half-written: its owner may be at it this moment; only an old one is an orphan.
            if time.time() - owner_file.stat().st_mtime < 60:
                continue
            owner = [0, 0]
        if owner is not None and processes.start_ticks(owner[0]) != owner[1]:
            processes.stop(processes.recorded(owner_file.parent), grace_seconds=0)
            shutil.rmtree(owner_file.parent, ignore_errors=True)
