"""A bare API server, without Tandem's CRDs: here the chart brings them. Helm and the components are the real ones."""

import dataclasses
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import LightCluster, binaries
from tandem_api import names
from tests.integration import waiting
from tests.integration.accounts import account_kubeconfig

Manifest = dict[str, Any]
CHART = Path(__file__).parents[3] / "helm" / "tandem"
NAMESPACE = "tandem-system"
CRDS = ("inferenceservices.tandem.dev", "workerpools.tandem.dev")
SERVICES = f"/apis/{names.API_VERSION}/namespaces/default/{names.INFERENCE_SERVICES}"


# A file of tests that carries this runs once with each, on a cluster of its own.
both_helms = pytest.mark.parametrize("site", ["helm", "helm4"], indirect=True)

# A chart's pods are processes that start, read and elect.
eventually = functools.partial(waiting.eventually, seconds=150.0)


@dataclass
class Site:
    """A cluster as its administrator sees it, who has one Helm: the program `helm` (3) or `helm4`."""

    cluster: LightCluster
    program: str = "helm"

    def with_helm(self, program: str) -> "Site":
        """The same cluster, through another Helm."""
        return dataclasses.replace(self, program=program)

    def helm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        # Helm owns fields under the name that it was called by, and users call both `helm`.
        done = subprocess.run(
            ["helm", *arguments, "--namespace", NAMESPACE],
            executable=str(binaries.ensure([self.program])[self.program]),
            capture_output=True, text=True, timeout=180,
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def install(self, chart: Path = CHART, *arguments: str, release: str = "tandem") -> str:
        return self.helm("upgrade", "--install", release, str(chart), *arguments).stdout

    def uninstall(self, release: str = "tandem") -> None:
        self.helm("uninstall", release, "--wait")

    # --- objects -----------------------------------------------------------------------------------------
    def get(self, path: str) -> Manifest | None:
        """None: there is none, or its kind is not served (429: a CRD was made a moment ago)."""
        status, text = self.cluster.api.request("GET", path)
        if status in (404, 429):
            return None
        assert status == 200, text
        found: Manifest = json.loads(text)
        return found

    def items(self, path: str) -> list[Manifest]:
        return list((self.get(path) or {"items": []})["items"])

    def crd(self, name: str) -> Manifest | None:
        return self.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")

    def lose_crds(self, delete: Callable[[], Any]) -> None:
        """`delete` them, and wait until they are gone.

        First both kinds are read, as a running operator would have: kube-apiserver (1.37) sets up a kind's storage
        when it is first asked for, and a CRD that is deleted in that moment it forgets until its next resync, minutes
        later: its finalizer fails ("storage is (re)initializing"), meets its own write (409) and takes that for news.
        """
        for kind in (names.INFERENCE_SERVICES, names.WORKER_POOLS):
            path = f"/apis/{names.API_VERSION}/{kind}"
            eventually(lambda path=path: self.get(path) is not None, what=f"{kind} are served")
        delete()
        eventually(lambda: not any(self.crd(name) for name in CRDS), what="the CRDs are gone")

    def spec_fields(self) -> set[str]:
        """Fields of InferenceService.spec that the API server knows."""
        crd = self.crd(CRDS[0])
        assert crd is not None
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return set(schema["properties"]["spec"]["properties"])

    def apply(self, name: str, **spec: Any) -> Manifest:
        eventually(lambda: self.get(SERVICES), what="InferenceServices are served")
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": names.INFERENCE_SERVICE,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"model": {"uri": "path:///model"}, "autoscaling": {"mode": "Off"}, **spec},
        }
        made: Manifest = self.cluster.api.patch(
            f"{SERVICES}/{name}?fieldManager=user&force=true", manifest, kind="apply-patch"
        )
        return made

    def service(self, name: str) -> Manifest | None:
        return self.get(f"{SERVICES}/{name}")

    def told(self, name: str, condition: str) -> tuple[str, str] | None:
        """Status and reason of a service's condition; None where it has none of that type."""
        conditions = ((self.service(name) or {}).get("status") or {}).get("conditions", [])
        found = [one for one in conditions if one["type"] == condition]
        return (found[0]["status"], found[0]["reason"]) if found else None

    def change(self, name: str, **spec: Any) -> None:
        """And the operator has taken it up."""
        self.cluster.api.patch(f"{SERVICES}/{name}", {"spec": spec})

        def taken_up() -> bool:
            service = self.service(name) or {}
            return bool(service["status"]["observedGeneration"] == service["metadata"]["generation"])

        eventually(taken_up, what="the change is taken up")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Administered with Helm 3, unless the test asks for another (`both_helms`)."""
    with LightCluster() as cluster:
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield Site(cluster, getattr(request, "param", "helm"))


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The chart of a version before: older CRDs, without `gpuBudget`."""
    folder = tmp_path / "previous"
    shutil.copytree(CHART, folder)
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    (folder / "Chart.yaml").write_text(yaml.safe_dump({**chart, "version": "0.0.9", "appVersion": "0.0.9"}))
    file = folder / "files" / "crds" / f"{CRDS[0]}.yaml"
    crd = yaml.safe_load(file.read_text())
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "gpuBudget"
    ]
    file.write_text(yaml.safe_dump(crd))
    return folder


class Component:
    """Operator or autoscaler as a process with the rights of the chart's own ServiceAccount, in the pod's stead."""

    def __init__(self, site: Site, component: str, log: Path, *arguments: str) -> None:
        self.log = log
        self.user = f"system:serviceaccount:{NAMESPACE}:tandem-{component}"
        kubeconfig = account_kubeconfig(
            site.cluster, NAMESPACE, f"tandem-{component}", log.with_suffix(".kubeconfig")
        )
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tandem_{component}.main", "--lease-namespace", NAMESPACE, *arguments],
                env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdout=output, stderr=output,
            )  # fmt: skip

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        # Shown by pytest when the test has failed.
        print(self.log.read_text()[-3000:])
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def start(site: Site, tmp_path: Path) -> Iterator[Callable[..., Component]]:
    started: list[Component] = []

    def run(component: str, *arguments: str) -> Component:
        found = Component(site, component, tmp_path / f"{component}-{len(started)}.log", *arguments)
        started.append(found)
        return found

    yield run
    for one in started:
        one.stop()
