"""The cluster's network on this machine, and the guard that keeps its addresses on it.

The node's address lives on a bridge of its own; the service range is routed to that bridge, so that an
address no rule rewrites ends there; the pod range is black-holed below the pod bridge's own route; and a
packet from a pod to anywhere but the cluster is refused at once (a pod then sees "unreachable", not silence).
"""

import json
import subprocess
from pathlib import Path

from e2e.cluster.control_plane import SERVICE_RANGE
from e2e.cluster.errors import ClusterError

NODE_ADDRESS = "10.89.255.254"
POD_RANGE = "10.88.0.0/16"
DNS_SERVICE = "10.96.0.10"
NODE_BRIDGE = "tandem-node"
POD_BRIDGE = "tandem-pods"
GUARD_CHAIN = "TANDEM-GUARD"
_CHAINS = ("KUBE-", "CNI-", "TANDEM-")  # prefixes of chains that the cluster's parts make
_SYSCTLS = {"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"}


def _run(*command: str, must: bool = True, stdin: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, input=stdin)
    if must and done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _links(*selector: str) -> list[str]:
    """Names of network devices, in this network namespace, that `ip link show` finds by `selector`."""
    found = json.loads(_run("ip", "-json", "link", "show", *selector, must=False) or "[]")
    return [link["ifname"] for link in found if "ifname" in link]


def set_up(folder: Path) -> None:
    """Bridge, routes, guard, sysctls; former sysctl values are kept in `folder` for `tear_down`."""
    if not _links(NODE_BRIDGE):
        _run("ip", "link", "add", NODE_BRIDGE, "type", "bridge")
    _run("ip", "address", "replace", f"{NODE_ADDRESS}/32", "dev", NODE_BRIDGE)
    _run("ip", "link", "set", NODE_BRIDGE, "up")
    _run("ip", "route", "replace", SERVICE_RANGE, "dev", NODE_BRIDGE)
    _run("ip", "route", "replace", "blackhole", POD_RANGE, "metric", "5000")
    if not Path("/proc/sys/net/bridge").exists():
        subprocess.run(["modprobe", "br_netfilter"], capture_output=True)
    former = {}
    for key, value in _SYSCTLS.items():
        file = Path("/proc/sys") / key
        if not file.exists():
            raise ClusterError(f"the kernel has no {key}: modprobe br_netfilter")
        former[key] = file.read_text().strip()
        file.write_text(value)
    record = folder / "sysctls.json"
    if not record.exists():
        record.write_text(json.dumps(former))
    _run("iptables", "-w", "-N", GUARD_CHAIN, must=False)
    _run("iptables", "-w", "-F", GUARD_CHAIN)
    rules = [
        ["-s", POD_RANGE, "-o", POD_BRIDGE, "-j", "RETURN"],
        ["-s", POD_RANGE, "-o", NODE_BRIDGE, "-j", "RETURN"],
        ["-s", POD_RANGE, "-j", "REJECT", "--reject-with", "icmp-net-unreachable"],
        # A packet from elsewhere into the cluster is nobody's.
        ["-d", POD_RANGE, "!", "-i", POD_BRIDGE, "-j", "REJECT", "--reject-with", "icmp-net-unreachable"],
    ]
    for rule in rules:
        _run("iptables", "-w", "-A", GUARD_CHAIN, *rule)
    _run("iptables", "-w", "-D", "FORWARD", "-j", GUARD_CHAIN, must=False)
    _run("iptables", "-w", "-I", "FORWARD", "1", "-j", GUARD_CHAIN)


def removal_script(saved: str) -> str:
    """From `iptables-save` text, the `iptables-restore --noflush` text that removes the cluster's chains.

    Only chains named with the cluster's prefixes go, and rules elsewhere that jump to them; every other rule
    stays as it is.
    """
    out: list[str] = []
    chains: list[str] = []
    jumps: list[str] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            out.append(line)
            chains, jumps = [], []
        elif line.startswith(":"):
            name = line[1:].split()[0]
            if name.startswith(_CHAINS):
                chains.append(name)
        elif line.startswith("-A "):
            words = line.split()
            target = words[words.index("-j") + 1] if "-j" in words else ""
            if target.startswith(_CHAINS) and not words[1].startswith(_CHAINS):
                jumps.append("-D " + line.removeprefix("-A "))
        elif line == "COMMIT":
            if not chains and not jumps:
                out.pop()
                continue
            out += jumps + [f"-F {c}" for c in chains] + [f"-X {c}" for c in chains] + ["COMMIT"]
    return "\n".join(out) + "\n" if out else ""


def tear_down(folder: Path) -> None:
    """Undo `set_up` and what CNI and kube-proxy added; works from any state and says nothing."""
    for family in ("iptables", "ip6tables"):
        script = removal_script(_run(f"{family}-save", must=False))
        if script:
            _run(f"{family}-restore", "-w", "--noflush", stdin=script, must=False)
    for master in (POD_BRIDGE, NODE_BRIDGE):
        for port in _links("master", master) if _links(master) else []:
            _run("ip", "link", "delete", port, must=False)
        if _links(master):
            _run("ip", "link", "delete", master, must=False)
    _run("ip", "route", "delete", "blackhole", POD_RANGE, "metric", "5000", must=False)
    _run("conntrack", "-D", "-s", POD_RANGE, must=False)
    for key, value in _former_sysctls(folder).items():
        file = Path("/proc/sys") / key
        if key in _SYSCTLS and file.exists():
            file.write_text(value)
    for result in Path("/var/lib/cni/results").glob("tandem-*"):
        result.unlink(missing_ok=True)


def _former_sysctls(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / "sysctls.json").read_text()))
    except (OSError, ValueError):
        return {}


def left_behind() -> list[str]:
    """What of the cluster's network is still on this machine, in words."""
    found = [f"bridge {b}" for b in (NODE_BRIDGE, POD_BRIDGE) if _links(b)]
    if POD_RANGE in _run("ip", "route", must=False):
        found.append(f"route {POD_RANGE}")
    if removal_script(_run("iptables-save", must=False)):
        found.append("iptables chains")
    return found
