"""One real cluster with Tandem in it for the whole run; a namespace of its own for each scenario."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.demo.stage import NAMESPACE, RELEASE, Stage
from e2e.scenarios.terminal import Terminal


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    standing = Stage(current=os.environ.get("CLUSTER") == "current")
    standing.up()
    yield standing
    if not os.environ.get("TANDEM_KEEP_CLUSTER"):
        standing.down()


@pytest.fixture
def bare(stage: Stage) -> Iterator[Stage]:
    """The cluster without chart and CRDs, so without any InferenceService; afterwards as the others expect it."""
    if stage.current:
        pytest.skip("it would take Tandem off a cluster that is somebody's")
    stage.run("helm", "uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait")
    stage.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
    stage.kubectl("delete", "crd", "-l", "app.kubernetes.io/part-of=tandem", "--timeout=300s")
    yield stage
    stage.install_chart()


@pytest.fixture
def terminal(stage: Stage, tmp_path: Path) -> Terminal:
    return Terminal.at(stage, tmp_path)


@pytest.fixture
def namespace(stage: Stage) -> Iterator[str]:
    name = f"e2e-{uuid.uuid4().hex[:6]}"
    stage.kubectl("create", "namespace", name)
    yield name
    # Not awaited: what still terminates holds its GPUs, and the next scenario has to live with that, as in life.
    stage.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def apply(stage: Stage, namespace: str) -> Callable[[dict[str, Any]], None]:
    """`kubectl apply` of one manifest into the scenario's namespace."""
    return lambda manifest: _apply(stage, namespace, manifest)


def _apply(stage: Stage, namespace: str, manifest: dict[str, Any]) -> None:
    stage.kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """`eventually(probe, seconds, what)`: call `probe` each half second until it returns something true."""

    def wait(probe: Callable[[], Any], seconds: float, what: str) -> Any:
        ends, seen = time.monotonic() + seconds, None
        while time.monotonic() < ends:
            seen = probe()
            if seen:
                return seen
            time.sleep(0.5)
        raise AssertionError(f"{what}: not within {seconds:.0f} s (last seen: {seen!r})")

    return wait
