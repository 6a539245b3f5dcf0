"""RBAC and leadership on the real API server (field cases D16, D17)."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem_api import names
from tandem_operator.permissions import LEASE_PERMISSIONS, PERMISSIONS
from tests.integration.accounts import limited_account
from tests.integration.operator.conftest import Operator, Place, disaggregated, eventually

pytestmark = pytest.mark.integration
StartOperator = Callable[..., Operator]


def test_a_namespaced_install_works_with_the_listed_rights_alone(
    place: Place, start_operator: StartOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = (*PERMISSIONS, *LEASE_PERMISSIONS)
    limited = limited_account(place.cluster, place.namespace, "operator", rights, tmp_path)
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
