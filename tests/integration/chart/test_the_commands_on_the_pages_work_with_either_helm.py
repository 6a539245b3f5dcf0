"""Every helm command that README.md and docs/ show, as it stands there, with Helm 3 and with Helm 4.

On fake nodes, so that `--wait` waits for something; what `helm test` runs is played by hand (make e2e runs it).
"""

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from e2e.cluster import LightCluster, binaries
from tests.docs.pages import ROOT, blocks
from tests.integration.chart.conftest import NAMESPACE, Site, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
SHOWN = {
    line.strip()
    for block in blocks("", "bash", "sh", "console")
    for line in block.text.replace("\\\n", " ").splitlines()
    if line.startswith("helm ")
}


@dataclass
class User:
    """A folder as a clone has it, where `helm` is one of the two; and what was typed in it."""

    site: Site
    folder: Path
    typed: set[str] = field(default_factory=set)

    def types(self, *words: str, unless: str = "--no-such-flag") -> str:
        """Run the one shown command that has these words, and not the word `unless`; its output."""
        (line,) = (line for line in SHOWN if set(words) <= set(line.split()) and unless not in line.split())
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, capture_output=True, text=True, timeout=300,
            env={
                **os.environ, "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "KUBECONFIG": str(self.site.cluster.kubeconfig),
            },
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        self.typed.add(line)
        return done.stdout


@pytest.fixture(scope="module", params=["helm", "helm4"])
def user(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("clone")
    (folder / "helm").symlink_to(ROOT / "helm")
    (folder / "bin").mkdir()
    (folder / "bin" / "helm").symlink_to(binaries.ensure([request.param])[request.param])
    (folder / "images.yaml").write_text(yaml.safe_dump({"image": {"tag": "mine"}}))
    with LightCluster(kwok_nodes=1) as cluster:
        yield User(Site(cluster, request.param), folder)


def deployed(site: Site, namespace: str = NAMESPACE) -> list[int]:
    """Ready replicas of the control plane's Deployments."""
    found = site.items(f"/apis/apps/v1/namespaces/{namespace}/deployments")
    return [one["status"].get("readyReplicas", 0) for one in found]


def test_every_helm_command_that_is_shown_can_be_typed(user: User) -> None:
    site = user.site

    # docs/install.md: install, test; docs/upgrade.md, docs/dashboard.md: upgrade
    assert "helm test tandem --namespace tandem-system" in user.types(
        "install", "--create-namespace", unless="--values"
    ), "the notes tell the next command"
    assert deployed(site) == [1, 1]
    player = threading.Thread(target=let_the_test_pod_succeed, args=(site,))
    player.start()
    assert "Succeeded" in user.types("test")
    player.join()
    user.types("upgrade", "--wait")
    user.types("upgrade", "autoscaler.dashboard.enabled=true")

    # docs/install.md: uninstall keeps what users wrote, and a later install takes it up again
    uid = site.apply("chat")["metadata"]["uid"]
    user.types("uninstall")
    eventually(lambda: deployed(site) == [], what="the control plane is gone")
    # README.md, the first of three commands
    user.types("install", "--create-namespace", "--values")
    assert deployed(site) == [1, 1]
    kept = site.service("chat")
    assert kept is not None and kept["metadata"]["uid"] == uid

    # docs/install.md: to remove everything
    user.types("upgrade", "crds.keep=false")
    site.lose_crds(lambda: user.types("uninstall"))

    # docs/install.md: one namespace only
    site.cluster.api.post("/api/v1/namespaces", {"metadata": {"name": "team-a"}})
    user.types("install", "team-a")
    eventually(lambda: deployed(site, "team-a") == [1, 1], what="it runs in its namespace")

    assert user.typed == SHOWN


def let_the_test_pod_succeed(site: Site) -> None:
    """As a kubelet that has run it: fake nodes leave a pod Running for ever."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/tandem-test"
    eventually(lambda: (site.get(path) or {"status": {}})["status"].get("phase") == "Running")
    site.cluster.api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
