"""Fake nodes, for scale: kwok keeps them Ready and moves the pods bound to them to Running."""

from pathlib import Path
from typing import Any

from e2e.cluster.api import ApiClient

GPUS_PER_NODE = 8


def command(binary: Path, *, kubeconfig: Path) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        # Addresses of fake pods lie on the loopback: whoever dials one is refused at once, on this machine.
        "--cidr=127.92.0.0/16",
    ]


def node(index: int, *, gpus: int = GPUS_PER_NODE) -> dict[str, Any]:
    """A fake node's manifest, with room for 250 pods."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "250", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"fake-{index}",
            "labels": {
                "kubernetes.io/hostname": f"fake-{index}",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": room, "allocatable": room},
    }


def ready_nodes(api: ApiClient) -> int:
    """Nodes whose Ready condition is True."""
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in item["status"].get("conditions", []))
        for item in api.get("/api/v1/nodes")["items"]
    )
