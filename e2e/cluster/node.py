"""The node: kubelet on containerd, kube-proxy, CoreDNS, and the fake GPUs."""

import json
from pathlib import Path
from typing import Any

from e2e.cluster import container_runtime, processes
from e2e.cluster.api import ApiClient
from e2e.cluster.container_runtime import Runtime
from e2e.cluster.errors import ClusterError
from e2e.cluster.network import DNS_SERVICE, NODE_ADDRESS, POD_RANGE

NODE_NAME = "node-1"
GPU = "nvidia.com/gpu"


def kubelet_configuration(runtime: Runtime, *, client_ca: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{runtime.cgroup}",
        "containerRuntimeEndpoint": f"unix://{runtime.socket}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(client_ca)},
        },
        "authorization": {"mode": "Webhook"},
        "healthzPort": 0,
        "readOnlyPort": 0,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        # The machine's own resolver would send pods' lookups off the machine.
        "resolvConf": "",
        "failSwapOn": False,
        "failCgroupV1": False,
        "localStorageCapacityIsolation": False,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # The image store is filled by hand; collecting it would cost minutes to fill again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 200,
        "serializeImagePulls": False,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "shutdownGracePeriod": "0s",
    }


def start_kubelet(runtime: Runtime, binary: Path, api: ApiClient) -> None:
    """Start the kubelet; returns when the node is Ready."""
    folder = runtime.folder
    container_runtime.make_cgroup(runtime)
    (folder / "kubelet").mkdir(exist_ok=True)
    config = folder / "kubelet.json"
    config.write_text(
        json.dumps(kubelet_configuration(runtime, client_ca=folder / "pki" / "ca.crt"), indent=1)
    )
    command = [
        str(binary),
        f"--config={config}",
        f"--kubeconfig={folder / 'kubelet.kubeconfig'}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={folder / 'kubelet'}",
        f"--cert-dir={folder / 'kubelet' / 'pki'}",
        "--v=1",
    ]
    kubelet = processes.spawn("kubelet", command, folder=folder)
    processes.wait_for(
        f"node {NODE_NAME} Ready", lambda: node_ready(api), processes=[kubelet], within_seconds=90
    )


def node_ready(api: ApiClient) -> bool:
    try:
        status = api.get(f"/api/v1/nodes/{NODE_NAME}")["status"]
    except ClusterError:
        return False
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))


def set_gpus(api: ApiClient, count: int) -> None:
    """Give the node `count` GPUs that exist in the scheduler's books only; the kubelet keeps them."""
    room = {GPU: str(count)}
    api.patch(
        f"/api/v1/nodes/{NODE_NAME}/status",
        {"status": {"capacity": room, "allocatable": room}},
        kind="strategic-merge-patch",
    )


def gpus(api: ApiClient) -> int:
    return int(api.get(f"/api/v1/nodes/{NODE_NAME}")["status"]["allocatable"].get(GPU, 0))


def start_service_proxy(folder: Path, binary: Path) -> None:
    """kube-proxy, which turns service addresses into pod addresses by iptables rules."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(folder / "kube-proxy.kubeconfig")},
        "hostnameOverride": NODE_NAME,
        "clusterCIDR": POD_RANGE,
        "healthzBindAddress": f"{NODE_ADDRESS}:10256",
        "metricsBindAddress": f"{NODE_ADDRESS}:10249",
        "nodePortAddresses": [f"{NODE_ADDRESS}/32"],
        "conntrack": {"maxPerCore": 0, "min": 0},
        "iptables": {"minSyncPeriod": "0s", "localhostNodePorts": False},
    }
    (folder / "kube-proxy.json").write_text(json.dumps(config, indent=1))
    processes.spawn("kube-proxy", [str(binary), f"--config={folder / 'kube-proxy.json'}"], folder=folder)


def start_dns(folder: Path, binary: Path, api: ApiClient) -> None:
    """CoreDNS as a process of this machine behind the service kube-dns.

    It answers for cluster.local only: any other name is refused at once, never forwarded.
    """
    (folder / "Corefile").write_text(
        f""".:53 {{
  bind {NODE_ADDRESS}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {folder / "coredns.kubeconfig"}
  }}
  cache 5
}}
"""
    )
    for path, body in _dns_objects():
        api.create_missing(path, body)
    command = [str(binary), "-conf", str(folder / "Corefile")]
    processes.spawn("coredns", command, folder=folder)


def _dns_objects() -> list[tuple[str, dict[str, Any]]]:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {
        "metadata": {"name": "tandem:coredns"},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["endpoints", "services", "pods", "namespaces"],
                "verbs": ["list", "watch"],
            },
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    }
    binding = {
        "metadata": {"name": "tandem:coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tandem:coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
    }
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    service = {
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": DNS_SERVICE, "ports": ports},
    }
    endpoints = {
        "addressType": "IPv4",
        "metadata": {
            "name": "kube-dns-1",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "endpoints": [{"addresses": [NODE_ADDRESS], "conditions": {"ready": True}}],
        "ports": ports,
    }
    return [
        (f"{rbac}/clusterroles", role),
        (f"{rbac}/clusterrolebindings", binding),
        ("/api/v1/namespaces/kube-system/services", service),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", endpoints),
    ]
