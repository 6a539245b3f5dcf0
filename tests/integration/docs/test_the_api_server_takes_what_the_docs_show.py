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


def dry_run(kubectl: Kubectl, manifest: Manifest) -> subprocess.CompletedProcess[str]:
    return kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--field-manager=docs", "-f", "-",
        stdin=yaml.safe_dump(manifest.content),
    )  # fmt: skip


@pytest.mark.parametrize("manifest", HERE, ids=str)
def test_it_is_accepted(kubectl: Kubectl, manifest: Manifest) -> None:
    done = dry_run(kubectl, manifest)
    assert done.returncode == 0, done.stderr
    assert "serverside-applied (server dry run)" in done.stdout


def test_a_wrong_one_would_be_refused(kubectl: Kubectl) -> None:
    right = next(each for each in ALL if each.content["kind"] == names.INFERENCE_SERVICE)
    wrong = copy.deepcopy(right.content)
    wrong["spec"]["engin"] = {}
    done = dry_run(kubectl, Manifest("wrong", wrong))
    assert done.returncode != 0
    assert "engin" in done.stderr
