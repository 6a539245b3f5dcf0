"""RBAC and leadership on the real API server (field cases D16, D17)."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tandem_api import names
from tandem_operator.permissions import LEASE_PERMISSIONS, PERMISSIONS
from tests.integration.operator.conftest import Operator, Place, disaggregated, eventually

pytestmark = pytest.mark.integration
StartOperator = Callable[..., Operator]


def kubeconfig_of_a_service_account(place: Place, folder: Path) -> Path:
    """An account with exactly the operator's permissions, in the one namespace it serves."""
    api, namespace = place.cluster.api, place.namespace
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [
        {"apiGroups": [one.group], "resources": [one.resource], "verbs": list(one.verbs)}
        for one in (*PERMISSIONS, *LEASE_PERMISSIONS)
    ]
    api.post(place.path("serviceaccounts"), {"metadata": {"name": "operator"}})
    api.post(f"{rbac}/roles", {"metadata": {"name": "operator"}, "rules": rules})
    api.post(
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}],
        },
    )
    token = api.post(
        place.path("serviceaccounts", "operator") + "/token", {"spec": {"expirationSeconds": 3600}}
    )
    config = yaml.safe_load(place.cluster.kubeconfig.read_text())
    user = config["contexts"][0]["context"]["user"]
    config["users"] = [{"name": user, "user": {"token": token["status"]["token"]}}]
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def test_a_namespaced_install_works_with_the_listed_rights_alone(
    place: Place, start_operator: StartOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = kubeconfig_of_a_service_account(place, tmp_path)
    monkeypatch.setattr(place.cluster, "kubeconfig", limited)
    mark = place.cluster.audit.mark()
    operator = start_operator()
    place.apply("chat", disaggregated())
    place.run_all("chat", count=2)
    place.scale("chat-decode", 2)
    place.run_all("chat", count=3)
    eventually(lambda: place.service("chat")["status"]["summary"] == "3/3")
    place.scale("chat-decode", 1)
    eventually(lambda: len(place.workers("chat")) == 2, seconds=30)
    place.cluster.api.patch(
        place.path(names.INFERENCE_SERVICES, "chat"),
        {"spec": {"mode": "Colocated", "prefill": None, "decode": None, "workers": {"maxReplicas": 1}}},
    )
    eventually(lambda: place.workers("chat", role="workers"))

    writes = place.cluster.audit.writes_since(mark, user=f"system:serviceaccount:{place.namespace}:operator")
    assert {write.verb for write in writes} >= {"create", "patch", "delete"}
    assert [write for write in writes if write.status == 403] == []
    # Not a moment's milliseconds, which follow a comma.
    assert not re.search(r"(?<![\d,])403(?!\d)", operator.log.read_text())
    assert "orbidden" not in operator.log.read_text()


def test_who_has_lost_the_lease_writes_no_more_and_ends(place: Place, start_operator: StartOperator) -> None:
    operator = start_operator()
    place.apply("chat", disaggregated())
    eventually(lambda: len(place.workers("chat")) == 2)
    lease = place.path("leases", names.OPERATOR_LEASE, group="coordination.k8s.io/v1")

    place.cluster.api.patch(lease, {"spec": {"holderIdentity": "another"}})

    assert operator.process is not None
    assert operator.process.wait(20) == 1
    assert place.cluster.api.get(lease)["spec"]["holderIdentity"] == "another"
    mark = place.cluster.audit.mark()
    place.scale("chat-decode", 2)
    assert operator.writes_since(mark) == []
    assert len(place.workers("chat")) == 2
