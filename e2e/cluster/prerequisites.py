"""Debian packages the full form and the images stand on; installed when absent."""

import os
import shutil
import subprocess

from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import step

# program -> Debian package
NODE = {
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "openssl": "openssl",
    "mount": "mount",
}
IMAGES = {"mmdebstrap": "mmdebstrap", "buildah": "buildah", "skopeo": "skopeo", "ctr": "containerd"}


def missing(programs: dict[str, str]) -> list[str]:
    """Debian packages of the programs that are not there."""
    return sorted({package for program, package in programs.items() if not shutil.which(program)})


def install(programs: dict[str, str]) -> None:
    """Install what is missing; ClusterError with the line to run where that is not possible."""
    packages = missing(programs)
    if not packages:
        return
    line = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ClusterError(f"missing programs; as root: {line}")
    with step(f"apt: {' '.join(packages)}"):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(line.split(), env=env, capture_output=True, text=True)
        if done.returncode != 0:  # stale or absent package lists
            subprocess.run(["apt-get", "update"], env=env, capture_output=True)
            done = subprocess.run(line.split(), env=env, capture_output=True, text=True)
    if done.returncode != 0 or missing(programs):
        tail = "\n".join(done.stderr.splitlines()[-5:])
        raise ClusterError(f"could not install packages ({line}):\n{tail}")


def require_root(what: str) -> None:
    if os.geteuid() != 0:
        raise ClusterError(f"{what} needs root (mounts, network namespaces, iptables); run it with sudo -E")
