"""ServiceAccounts on the tests' API server: with the rights that the code names, and as their own pods see it."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from e2e.cluster import LightCluster
from tandem_api.kubernetes.permissions import Permission, rules


def limited_account(
    cluster: LightCluster, namespace: str, name: str, permissions: Iterable[Permission], folder: Path
) -> Path:
    """The kubeconfig of a new account with exactly these permissions, in this one namespace."""
    api, rbac = cluster.api, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    api.post(f"{rbac}/roles", {"metadata": {"name": name}, "rules": rules(permissions)})
    api.post(
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    )
    return account_kubeconfig(cluster, namespace, name, folder / "kubeconfig")


def account_kubeconfig(cluster: LightCluster, namespace: str, name: str, target: Path) -> Path:
    """The kubeconfig of an account, written to `target`; it holds for two hours."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token = cluster.api.post(path, {"spec": {"expirationSeconds": 7200}})["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": name, "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = name
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(config))
    return target
