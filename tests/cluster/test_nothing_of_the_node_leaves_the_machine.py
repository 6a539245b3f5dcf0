"""The settings that keep pulls, lookups and pod addresses on the machine, read as the programs read them."""

import ipaddress
import json
import tomllib
from pathlib import Path

from e2e.cluster import container_runtime, kwok, node
from e2e.cluster.container_runtime import Runtime
from e2e.cluster.control_plane import Layout, apiserver_command

RUNTIME = Runtime(Path("/nowhere/cluster"))


def test_pods_are_not_masqueraded_as_this_machine() -> None:
    network = json.loads(container_runtime.network_configuration(RUNTIME))
    assert network["plugins"][0]["ipMasq"] is False


def test_containerd_asks_the_clusters_own_registry_table() -> None:
    config = tomllib.loads(container_runtime.configuration(RUNTIME, restrict_oom_score=True))
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["registry"]["config_path"] == "/nowhere/cluster/registries"
    assert cri["restrict_oom_score_adj"] is True


def test_pods_do_not_get_the_machines_resolver() -> None:
    assert node.kubelet_configuration(RUNTIME, client_ca=Path("/ca.crt"))["resolvConf"] == ""


def test_addresses_of_fake_pods_are_on_the_loopback() -> None:
    (cidr,) = [a for a in kwok.command(Path("kwok"), kubeconfig=Path("k")) if a.startswith("--cidr=")]
    assert ipaddress.ip_network(cidr.removeprefix("--cidr=")).is_loopback


def test_the_light_form_listens_on_the_loopback_alone() -> None:
    layout = Layout(
        folder=Path("/nowhere"),
        name="light",
        address="127.0.0.1",
        api_port=1,
        etcd_port=2,
        etcd_peer_port=3,
        scheduler=False,
    )
    assert "--bind-address=127.0.0.1" in apiserver_command(layout, Path("kube-apiserver"))
