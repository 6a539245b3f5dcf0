"""containerd for the node: its configuration, its leftovers, and its image store, which outlives the cluster."""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import processes
from e2e.cluster.cache import cache_dir
from e2e.cluster.errors import ClusterError
from e2e.cluster.network import POD_BRIDGE, POD_RANGE
from e2e.cluster.processes import Process

PAUSE_IMAGE = "tandem.local/pause:1"
_NAMESPACE = "k8s.io"


@dataclass(frozen=True)
class Runtime:
    """Where containerd lives: `folder` for this cluster's state, `store` for images."""

    folder: Path

    @property
    def store(self) -> Path:
        return cache_dir() / "node-images"

    @property
    def state(self) -> Path:
        return self.folder / "containerd"

    @property
    def cgroup(self) -> str:
        """Parent of every pod's cgroup: what is in it is this cluster's, and nothing else is."""
        name = self.folder.name
        return name if name.startswith("tandem") else f"tandem-{name}"

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def ctr(self, *arguments: str, must: bool = True) -> str:
        """Run containerd's own client in the kubelet's namespace."""
        command = ["ctr", "--address", str(self.socket), "-n", _NAMESPACE, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if must and done.returncode != 0:
            raise ClusterError(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def answers(self) -> bool:
        if not self.socket.exists():
            return False
        command = ["ctr", "--address", str(self.socket), "version"]
        return subprocess.run(command, capture_output=True).returncode == 0


def _may_raise_oom_score() -> bool:
    """CAP_SYS_RESOURCE (bit 24): without it runc cannot lower a container's OOM score."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & (1 << 24))
    return False


def configuration(runtime: Runtime, *, restrict_oom_score: bool) -> str:
    """containerd's TOML. Every registry is a closed loopback port: no pull leaves the machine or waits."""
    return f"""version = 2
root = "{runtime.store}"
state = "{runtime.state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{runtime.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = {str(restrict_oom_score).lower()}
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{runtime.folder / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{runtime.folder / "registries"}"
"""


def network_configuration(runtime: Runtime) -> str:
    """The pod network: one bridge, no masquerading."""
    plugins = [
        {
            "type": "bridge",
            "bridge": POD_BRIDGE,
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": POD_RANGE}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": str(runtime.folder / "addresses"),
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "tandem", "plugins": plugins}, indent=1)


def start(runtime: Runtime) -> Process:
    """Start containerd with an empty set of containers; returns when it answers."""
    for name in ("cni", "registries/_default"):
        (runtime.folder / name).mkdir(parents=True, exist_ok=True)
    (runtime.folder / "cni" / "10-tandem.conflist").write_text(network_configuration(runtime))
    (runtime.folder / "registries" / "_default" / "hosts.toml").write_text(
        'server = "http://127.0.0.1:1"\n[host."http://127.0.0.1:1"]\ncapabilities = ["pull", "resolve"]\n'
    )
    config = runtime.folder / "containerd.toml"
    config.write_text(configuration(runtime, restrict_oom_score=not _may_raise_oom_score()))
    process = _start(runtime, config)
    if runtime.ctr("containers", "list", "-q").split():
        # An unclean end leaves records of containers; the kubelet must not meet them.
        _forget_containers(runtime)
        processes.stop([process], grace_seconds=5)
        _drop_pod_folders(runtime)
        process = _start(runtime, config)
    return process


def _start(runtime: Runtime, config: Path) -> Process:
    process = processes.spawn("containerd", ["containerd", "--config", str(config)], folder=runtime.folder)
    processes.wait_for("containerd", runtime.answers, processes=[process], within_seconds=60)
    return process


def _forget_containers(runtime: Runtime) -> None:
    for identifier in runtime.ctr("tasks", "list", "-q", must=False).split():
        runtime.ctr("tasks", "delete", "--force", identifier, must=False)
    identifiers = runtime.ctr("containers", "list", "-q", must=False).split()
    if identifiers:
        runtime.ctr("containers", "delete", *identifiers, must=False)


def _drop_pod_folders(runtime: Runtime) -> None:
    for name in ("containers", "sandboxes"):
        shutil.rmtree(runtime.store / "io.containerd.grpc.v1.cri" / name, ignore_errors=True)


def stop_pods(runtime: Runtime) -> None:
    """Kill every process of every pod, and their shims, alive or orphaned; drop cgroups and mounts."""
    kill_cgroup(runtime)
    if runtime.answers():
        processes.wait_until(
            lambda: "RUNNING" not in runtime.ctr("tasks", "list", must=False), within_seconds=5
        )
        _forget_containers(runtime)
    for pid in _shims(runtime):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    kill_cgroup(runtime)


def clear(runtime: Runtime) -> None:
    """After containerd has ended: no mount and no folder of a pod stays."""
    _drop_pod_folders(runtime)
    unmount_below(runtime.folder)
    unmount_below(runtime.store)


def _shims(runtime: Runtime) -> list[int]:
    """Shim processes started for this socket."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"containerd-shim" in words[0] and str(runtime.socket).encode() in words:
                found.append(int(entry.name))
    return found


def _cgroups(runtime: Runtime) -> list[Path]:
    """The cluster's cgroup in each mounted hierarchy (one under cgroup v2, one a controller under v1)."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            found.append(Path(where) / runtime.cgroup)
    return found


def make_cgroup(runtime: Runtime) -> None:
    """The parent must exist before the kubelet starts; a v1 cpuset needs its CPUs and nodes by hand."""
    for path in _cgroups(runtime):
        path.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (path / file).exists() and not (path / "cgroup.controllers").exists():
                try:
                    if not (path / file).read_text().strip():
                        (path / file).write_text((path.parent / file).read_text())
                except OSError:
                    continue
        control = path.parent / "cgroup.subtree_control"
        if control.exists() and (path.parent / "cgroup.controllers").exists():
            for controller in (path.parent / "cgroup.controllers").read_text().split():
                try:
                    control.write_text(f"+{controller}")
                except OSError:
                    continue


def kill_cgroup(runtime: Runtime) -> None:
    """Kill all processes in the cluster's cgroups and remove the cgroups."""
    deadline = time.monotonic() + 10
    for root in _cgroups(runtime):
        while root.exists() and time.monotonic() < deadline:
            alive = 0
            for folder, _, _ in os.walk(root, topdown=False):
                try:
                    pids = (Path(folder) / "cgroup.procs").read_text().split()
                except OSError:
                    pids = []
                for pid in pids:
                    alive += 1
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                if not pids:
                    try:
                        os.rmdir(folder)
                    except OSError:
                        continue
            if alive:
                time.sleep(0.05)
            elif root.exists():
                time.sleep(0.01)


def mounts_below(folder: Path) -> list[str]:
    """Mount points below `folder`, innermost first."""
    inside = f"{folder}/"
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    decoded = [p.encode().decode("unicode_escape") for p in points]
    return [p for p in reversed(decoded) if p.startswith(inside)]


def unmount_below(folder: Path) -> None:
    for point in mounts_below(folder):
        subprocess.run(["umount", "--lazy", point], capture_output=True)
