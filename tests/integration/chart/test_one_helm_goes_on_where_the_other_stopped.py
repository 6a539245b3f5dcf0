"""Releases and CRDs that Helm 3 left are Helm 4's to go on with, and the other way round; who owns which field.

Helm 3 merges on the client's side. Helm 4 applies on the server's side, where a field that someone else owns is a
conflict; a release that Helm 3 made it goes on merging (`--server-side=auto`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.chart.conftest import CHART, CRDS, NAMESPACE, Site

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPERATOR = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tandem-operator"
EITHER = ["helm", "helm4"]
BOTH_WAYS = pytest.mark.parametrize(("first", "second"), [("helm", "helm4"), ("helm4", "helm")])


@pytest.fixture
def bare(site: Site) -> Iterator[Site]:
    """A cluster with nothing of Tandem, before and after."""
    yield site
    site.helm("uninstall", "tandem", "--ignore-not-found", "--wait")
    if all(site.crd(name) for name in CRDS):
        site.lose_crds(lambda: [site.cluster.api.delete(f"{CRD_PATH}/{name}") for name in CRDS])


def operator(site: Site) -> dict[str, Any]:
    found = site.get(OPERATOR)
    assert found is not None
    return found


def upgrade(site: Site, *arguments: str, check: bool = True, chart: Path = CHART) -> str:
    """As docs/upgrade.md has it, without --wait (no node runs the pods here); what it said on standard error."""
    done = site.helm("upgrade", "tandem", str(chart), "--reset-then-reuse-values", *arguments, check=check)
    assert check or done.returncode != 0, "it was to be refused"
    return done.stderr


def metadata(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(site.helm("get", "metadata", "tandem", "--output", "json").stdout)
    return found


@BOTH_WAYS
def test_a_release_is_upgraded_rolled_back_and_uninstalled_by_the_other(
    bare: Site, previous: Path, first: str, second: str
) -> None:
    before, after = bare.with_helm(first), bare.with_helm(second)
    before.install(previous, "--set", "operator.replicas=0")
    uid = bare.apply("chat")["metadata"]["uid"]

    upgrade(after)
    assert "gpuBudget" in bare.spec_fields()
    assert operator(bare)["spec"]["replicas"] == 0  # the values went along
    assert bare.apply("chat", gpuBudget=8)["metadata"]["uid"] == uid

    after.helm("rollback", "tandem", "1")
    assert "gpuBudget" not in bare.spec_fields()
    upgrade(before)
    assert "gpuBudget" in bare.spec_fields()

    after.uninstall()
    assert bare.get(OPERATOR) is None
    kept = bare.service("chat")
    assert kept is not None and kept["metadata"]["uid"] == uid


@BOTH_WAYS
def test_the_other_helm_alone_restarts_nothing(bare: Site, first: str, second: str) -> None:
    bare.with_helm(first).install()
    generation = operator(bare)["metadata"]["generation"]
    for program in (second, first):
        upgrade(bare.with_helm(program))
        assert operator(bare)["metadata"]["generation"] == generation


@pytest.mark.parametrize("second", EITHER)
@pytest.mark.parametrize("first", EITHER)
def test_crds_that_an_uninstall_left_are_brought_up_to_date_by_the_next_install(
    bare: Site, previous: Path, first: str, second: str
) -> None:
    bare.with_helm(first).install(previous)
    bare.apply("chat")
    bare.with_helm(first).uninstall()
    assert "gpuBudget" not in bare.spec_fields()

    bare.with_helm(second).helm("install", "tandem", str(CHART))
    assert "gpuBudget" in bare.spec_fields()
    assert bare.apply("chat", gpuBudget=8)["spec"]["gpuBudget"] == 8


@pytest.mark.parametrize(("program", "flags"), [("helm", []), ("helm4", ["--force-conflicts"])], ids=EITHER)
def test_crds_from_kubectl_are_taken_over_when_told(
    bare: Site, previous: Path, program: str, flags: list[str]
) -> None:
    site = bare.with_helm(program)
    site.cluster.kubectl("apply", "--server-side", "-f", str(previous / "files" / "crds"))
    done = site.helm("install", "tandem", str(CHART), check=False)
    assert done.returncode != 0 and "cannot be imported into the current release" in done.stderr

    site.helm("install", "tandem", str(CHART), "--take-ownership", *flags)
    assert "gpuBudget" in site.spec_fields()
    site.uninstall()
    assert all(site.crd(name) for name in CRDS)


def test_older_crds_from_kubectl_are_a_conflict_for_helm_4(bare: Site, previous: Path) -> None:
    site = bare.with_helm("helm4")
    site.cluster.kubectl("apply", "--server-side", "-f", str(previous / "files" / "crds"))
    done = site.helm("install", "tandem", str(CHART), "--take-ownership", check=False)
    assert done.returncode != 0
    assert 'conflict with "kubectl"' in done.stderr


def scale_by_hand(site: Site, replicas: int) -> None:
    site.cluster.kubectl("scale", "deployment/tandem-operator", "-n", NAMESPACE, f"--replicas={replicas}")
    assert operator(site)["spec"]["replicas"] == replicas


def test_what_was_scaled_by_hand_is_put_back_by_helm_3(bare: Site) -> None:
    bare.install()
    scale_by_hand(bare, 2)
    upgrade(bare)
    assert operator(bare)["spec"]["replicas"] == 1


def test_what_was_scaled_by_hand_is_a_conflict_for_helm_4_until_the_values_agree_or_it_is_forced(
    bare: Site, previous: Path
) -> None:
    site = bare.with_helm("helm4")
    site.install(previous)
    scale_by_hand(site, 2)

    said = upgrade(site, check=False)
    assert 'conflict with "kubectl"' in said and ".spec.replicas" in said
    assert operator(site)["spec"]["replicas"] == 2
    assert "gpuBudget" in site.spec_fields(), "the rest is upgraded all the same"
    assert metadata(site)["status"] == "failed"

    upgrade(site, "--set", "operator.replicas=2")
    assert operator(site)["spec"]["replicas"] == 2
    assert metadata(site)["status"] == "deployed"
    upgrade(site, "--set", "operator.replicas=1", "--force-conflicts")
    assert operator(site)["spec"]["replicas"] == 1
    upgrade(site)


def test_what_was_scaled_to_zero_has_no_owner_and_is_put_back_by_either(bare: Site) -> None:
    site = bare.with_helm("helm4")
    site.install()
    for one in (site, bare):
        scale_by_hand(one, 0)
        upgrade(one)
        assert operator(one)["spec"]["replicas"] == 1


def test_a_release_of_helm_3_is_applied_on_the_server_only_when_told(bare: Site) -> None:
    bare.install()
    site = bare.with_helm("helm4")
    upgrade(site)
    assert metadata(site)["applyMethod"] == "csa"  # client-side apply
    upgrade(site, "--server-side=true")
    assert metadata(site)["applyMethod"] == "ssa"
    upgrade(site)
    assert metadata(site)["applyMethod"] == "ssa"
