"""Install, upgrade from a version before, uninstall, reinstall on the real API server (case D19), by each Helm."""

from pathlib import Path

import pytest

from tandem_api import names
from tests.integration.chart.conftest import CHART, CRDS, NAMESPACE, Site, both_helms, eventually

# On a busy machine a process needs a minute to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), both_helms]
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def own_objects(site: Site) -> set[str]:
    """What belongs to the release, CRDs apart."""
    found = {f"deployment/{one['metadata']['name']}" for one in site.items(DEPLOYMENTS)}
    for plural in ("clusterroles", "clusterrolebindings"):
        for one in site.items(f"/apis/rbac.authorization.k8s.io/v1/{plural}"):
            if (one["metadata"].get("labels") or {}).get(names.LABEL_PART_OF) == "tandem":
                found.add(f"{plural}/{one['metadata']['name']}")
    return found


def test_a_version_s_life(site: Site, previous: Path) -> None:
    # What is not fit for the restricted standard gets no pod here.
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    site.cluster.api.patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": restricted}})

    # install
    site.install(previous)
    assert "gpuBudget" not in site.spec_fields()
    uid = site.apply("chat")["metadata"]["uid"]

    # both have pods
    def components() -> set[str]:
        pods = site.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
        return {one["metadata"]["labels"][names.LABEL_APP_COMPONENT] for one in pods}

    eventually(lambda: components() == {"operator", "autoscaler"}, what="both have pods")

    # upgrade: the CRD too, and what users wrote stays
    site.install()
    assert "gpuBudget" in site.spec_fields()
    live = site.apply("chat", gpuBudget=8)
    assert live["metadata"]["uid"] == uid and live["spec"]["gpuBudget"] == 8
    images = {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in site.items(DEPLOYMENTS)}
    assert images == {"tandem/control-plane:0.1.0"}

    # rollback is an upgrade to before; the new field is kept in the object until someone writes it
    site.helm("rollback", "tandem", "1")
    assert "gpuBudget" not in site.spec_fields()
    site.install()

    # uninstall leaves CRDs and services, and nothing else
    assert own_objects(site)
    site.uninstall()
    eventually(lambda: own_objects(site) == set(), what="nothing of the release is left")
    assert all(site.crd(name) for name in CRDS)
    kept = site.service("chat")
    assert kept is not None and kept["metadata"]["uid"] == uid

    # reinstall
    site.install()
    kept = site.service("chat")
    assert kept is not None and kept["metadata"]["uid"] == uid
    assert own_objects(site)
    site.uninstall()


def test_another_release_takes_the_crds_over_only_when_told(site: Site) -> None:
    site.install()
    site.uninstall()
    done = site.helm("install", "other", str(CHART), check=False)
    assert done.returncode != 0 and "cannot be imported into the current release" in done.stderr
    site.helm("install", "other", str(CHART), "--take-ownership")
    site.uninstall("other")
    # Back to the name of the other tests, by the same way.
    site.install(CHART, "--take-ownership")
    site.uninstall()


def test_crds_may_be_brought_by_someone_else(site: Site) -> None:
    site.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "files" / "crds"))
    site.install(CHART, "--set", "crds.install=false")
    assert own_objects(site) and all(site.crd(name) for name in CRDS)
    site.uninstall()
    assert all(site.crd(name) for name in CRDS)


def test_kinds_of_others_are_used_once_they_are_there(site: Site) -> None:
    monitors = f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/podmonitors"
    site.install()
    assert site.get(monitors) is None
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for kind in ("PodMonitor", "PrometheusRule"):
        plural = f"{kind.lower()}s"
        site.cluster.api.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                "metadata": {"name": f"{plural}.monitoring.coreos.com"},
                "spec": {
                    "group": "monitoring.coreos.com", "scope": "Namespaced",
                    "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                    "versions": [
                        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema}}
                    ],
                },
            },
        )  # fmt: skip
    eventually(lambda: site.get(monitors) is not None, what="PodMonitors are served")
    site.install()
    assert len(site.items(monitors)) == 3
    assert len(site.items(monitors.replace("podmonitors", "prometheusrules"))) == 1
    site.uninstall()
    assert site.items(monitors) == []


def test_only_who_asks_loses_crds_and_services(site: Site) -> None:
    """The last test on its cluster: afterwards there is nothing of Tandem any more."""
    site.install()
    site.apply("chat")
    site.install(CHART, "--set", "crds.keep=false")
    site.lose_crds(site.uninstall)
    assert site.service("chat") is None
