"""Operator and autoscaler under the chart's own ServiceAccounts, in cluster and in namespace scope (field case D16)."""

from collections.abc import Callable

import pytest

from tandem_api import names
from tests.integration.chart.conftest import CHART, NAMESPACE, SERVICES, Component, Site, eventually

# On a busy machine a process needs a minute to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
Start = Callable[..., Component]


def refused(site: Site, since: int, user: str) -> list[object]:
    return [write for write in site.cluster.audit.writes_since(since, user=user) if write.status == 403]


@pytest.mark.parametrize("namespaced", [False, True], ids=["cluster", "namespace"])
def test_they_serve_a_fleet_with_these_rights(site: Site, start: Start, namespaced: bool) -> None:
    site.install(CHART, "--set", f"namespaced={str(namespaced).lower()}")
    namespace = NAMESPACE if namespaced else "default"
    services = SERVICES.replace("/default/", f"/{namespace}/")
    scope = ["--namespace", NAMESPACE] if namespaced else []
    since = site.cluster.audit.mark()
    operator = start("operator", "--port", "0", "--host", "127.0.0.1", *scope)
    autoscaler = start("autoscaler", "--listen", "127.0.0.1:0", "--tick", "1", *scope)
    manifest = {
        "apiVersion": names.API_VERSION,
        "kind": names.INFERENCE_SERVICE,
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {
            "mode": "Disaggregated", "model": {"uri": "path:///model"}, "slo": {"ttft": "1s", "tpot": "40ms"},
            "prefill": {"minReplicas": 1, "maxReplicas": 2}, "decode": {"minReplicas": 1, "maxReplicas": 2},
        },
    }  # fmt: skip
    eventually(lambda: site.get(services), what="InferenceServices are served")
    site.cluster.api.post(services, manifest)
    path = f"{services}/chat"

    def condition(kind: str) -> bool:
        status = (site.get(path) or {}).get("status") or {}
        return kind in {one["type"] for one in status.get("conditions", [])}

    # Both write their part of the status; the pool above its maximum is put back by the autoscaler.
    eventually(lambda: condition("Ready") and condition("ScalingActive"), what="both wrote the status")
    pool = services.replace(names.INFERENCE_SERVICES, names.WORKER_POOLS) + "/chat-decode"
    site.cluster.api.patch(f"{pool}/scale", {"spec": {"replicas": 5}})
    eventually(lambda: (site.get(pool) or {})["spec"]["replicas"] == 2, what="the scale is written")
    # The operator removes the roles of a mode that is gone.
    site.cluster.api.patch(
        path, {"spec": {"mode": "Colocated", "prefill": None, "decode": None, "workers": {"maxReplicas": 1}}}
    )
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def roles() -> set[str]:
        labels = [one["metadata"]["labels"] for one in site.items(pods)]
        return {one[names.LABEL_ROLE] for one in labels if names.LABEL_ROLE in one}

    eventually(lambda: "workers" in roles(), what="the new role has a worker")

    for one in (operator, autoscaler):
        assert one.alive(), one.log.read_text()
        assert refused(site, since, one.user) == []
        assert site.cluster.audit.writes_since(since, user=one.user)
        assert "orbidden" not in one.log.read_text() and "Traceback" not in one.log.read_text()
        one.stop()
    site.cluster.api.delete(path)
    site.uninstall()


def test_the_operator_may_do_nothing_outside_its_namespace(site: Site) -> None:
    site.install(CHART, "--set", "namespaced=true")
    account = f"system:serviceaccount:{NAMESPACE}:tandem-operator"
    for namespace, allowed in ((NAMESPACE, True), ("default", False)):
        review = {
            "spec": {
                "user": account,
                "resourceAttributes": {"namespace": namespace, "verb": "create", "resource": "pods"},
            }
        }
        answer = site.cluster.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert answer["status"]["allowed"] is allowed, namespace
    site.uninstall()
