import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries

CHART = Path(__file__).parents[2] / "helm" / "tandem"


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    helm = str(binaries.ensure(["helm"])["helm"])
    return subprocess.run(
        [helm, "template", "tandem", str(CHART), "-n", "system", "--kube-version", "1.34.0", *arguments],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def rendered(*settings: str) -> list[dict[str, Any]]:
    done = template(*(part for setting in settings for part in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def container(documents: list[dict[str, Any]], component: str) -> dict[str, Any]:
    deployment = next(
        one for one in of_kind(documents, "Deployment") if one["metadata"]["name"] == f"tandem-{component}"
    )
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def test_cluster_scope_uses_cluster_roles_and_namespace_scope_none() -> None:
    assert len(of_kind(rendered(), "ClusterRole")) == 2
    namespaced = rendered("namespaced=true")
    assert not of_kind(namespaced, "ClusterRole") and not of_kind(namespaced, "ClusterRoleBinding")
    for component in ("operator", "autoscaler"):
        assert "--namespace=system" in container(namespaced, component)["args"]


def test_an_explicit_zero_of_replicas_is_zero() -> None:
    for deployment in of_kind(rendered("operator.replicas=0", "autoscaler.replicas=0"), "Deployment"):
        assert deployment["spec"]["replicas"] == 0


def test_images_reach_the_operator() -> None:
    arguments = container(
        rendered("worker.image.repository=mine/worker", "worker.image.tag=v7", "router.image.tag=v8"),
        "operator",
    )["args"]
    assert "--worker-image=mine/worker:v7" in arguments
    assert "--router-image=tandem/router:v8" in arguments


def test_the_autoscaler_can_be_left_out_whole() -> None:
    documents = rendered("autoscaler.enabled=false")
    assert not [one for one in documents if "autoscaler" in one["metadata"]["name"]]


def test_prometheus_needs_its_address_and_says_so() -> None:
    done = template("--set", "autoscaler.source=prometheus")
    assert done.returncode != 0 and "set prometheus.url" in done.stderr
    arguments = container(
        rendered("autoscaler.source=prometheus", "prometheus.url=http://p:9090"), "autoscaler"
    )
    assert "--prometheus-url=http://p:9090" in arguments["args"]


@pytest.mark.parametrize(
    "setting", ["operator.replica=2", "autoscaler.source=guess", "typo=1", "image.tag=1"]
)
def test_a_value_that_would_be_ignored_is_refused(setting: str) -> None:
    done = template("--set", setting)
    assert done.returncode != 0
    assert setting.split("=")[0].split(".")[-1] in done.stderr


def test_crds_are_kept_on_uninstall_and_can_be_left_out() -> None:
    crds = of_kind(rendered(), "CustomResourceDefinition")
    assert {crd["spec"]["names"]["kind"] for crd in crds} == {"InferenceService", "WorkerPool"}
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds)
    assert not of_kind(rendered("crds.install=false"), "CustomResourceDefinition")


def test_every_pod_is_fit_for_restricted_pod_security() -> None:
    for deployment in of_kind(rendered(), "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for one in pod["containers"]:
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
            assert one["securityContext"]["capabilities"]["drop"] == ["ALL"]
