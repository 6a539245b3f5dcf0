"""A real etcd and kube-apiserver for the whole test run, with Tandem's CRDs in it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import LightCluster, binaries

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds" / "generated"
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def cluster() -> Iterator[LightCluster]:
    with LightCluster() as started:
        _kubectl(started)("apply", "--server-side", "-f", str(CRDS), check=True)
        _kubectl(started)(
            "wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/part-of=tandem", check=True
        )
        yield started


def _kubectl(cluster: LightCluster) -> Kubectl:
    program = binaries.ensure(["kubectl"])["kubectl"]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}

    def run(
        *arguments: str, stdin: str | None = None, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), *arguments],
            input=stdin, capture_output=True, text=True, env=environment, check=check, timeout=60,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def kubectl(cluster: LightCluster) -> Kubectl:
    """`kubectl(*arguments, stdin=None)` against the test cluster."""
    return _kubectl(cluster)


@pytest.fixture(scope="session")
def kubectl_apply(kubectl: Kubectl) -> Callable[[dict[str, Any]], subprocess.CompletedProcess[str]]:
    """Apply one manifest as a user would: client-side, with kubectl's strict validation."""
    return lambda manifest: kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
