"""Every example, and every manifest in the documentation, applied to the real API server (server-side, dry-run)."""

import copy
import subprocess

import pytest
import yaml

from tandem_api import names
from tests.docs.pages import Manifest, manifests
from tests.integration.conftest import Kubectl

pytestmark = pytest.mark.integration

# Kinds of programs that are not in the test cluster. tests/integration/keda applies KEDA's own, with KEDA.
ELSEWHERE = {"ScaledObject"}
ALL = manifests()
HERE = [manifest for manifest in ALL if manifest.content["kind"] not in ELSEWHERE]


@pytest.fixture(scope="module")
def place(kubectl: Kubectl) -> str:
    """A namespace of its own: others may have applied an example before."""
    kubectl("create", "namespace", "docs", check=True)
    return "docs"


def dry_run(kubectl: Kubectl, place: str, manifest: Manifest) -> subprocess.CompletedProcess[str]:
    own = [] if "namespace" in manifest.content["metadata"] else ["--namespace", place]
    return kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--field-manager=docs", *own, "-f", "-",
        stdin=yaml.safe_dump(manifest.content),
    )  # fmt: skip


@pytest.mark.parametrize("manifest", HERE, ids=str)
def test_it_is_accepted(kubectl: Kubectl, place: str, manifest: Manifest) -> None:
    done = dry_run(kubectl, place, manifest)
    assert done.returncode == 0, done.stderr
    assert "serverside-applied (server dry run)" in done.stdout


def test_a_wrong_one_would_be_refused(kubectl: Kubectl, place: str) -> None:
    right = next(each for each in ALL if each.content["kind"] == names.INFERENCE_SERVICE)
    wrong = copy.deepcopy(right.content)
    wrong["spec"]["engin"] = {}
    done = dry_run(kubectl, place, Manifest("wrong", wrong))
    assert done.returncode != 0
    assert "engin" in done.stderr
