"""Two real processes, one lease, and no more rights than `permissions.py` says."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import binaries
from e2e.cluster.control_plane import free_ports
from tandem_api import names
from tandem_autoscaler import permissions
from tests.integration.accounts import limited_account
from tests.integration.autoscaler.conftest import World

pytestmark = pytest.mark.integration


def until(true: Callable[[], bool], what: str, within_seconds: float = 60.0) -> None:
    deadline = time.monotonic() + within_seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {within_seconds:g} s: {what}"
        time.sleep(0.1)


class Process:
    def __init__(self, kubeconfig: Path, world: World, log: Path, identity: str) -> None:
        (self.port,), self._log = free_ports(1), log.open("w+")
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "tandem_autoscaler", "--tick", "0.5", "--listen", f"127.0.0.1:{self.port}",
                "--namespace", world.namespace, "--lease-namespace", world.namespace, "--identity", identity,
            ],
            env=environment, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except (OSError, urllib.error.URLError):
            return ""

    def log(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(30)
        self._log.close()
        return code


@pytest.fixture
def limited(world: World, tmp_path: Path) -> Path:
    """A kubeconfig of a service account with exactly the permissions that the code names."""
    rights = (*permissions.PERMISSIONS, *permissions.LEASE_PERMISSIONS)
    return limited_account(world.cluster, world.namespace, "autoscaler", rights, tmp_path)


@pytest.fixture
def two(limited: Path, world: World, tmp_path: Path) -> Iterator[list[Process]]:
    processes = [Process(limited, world, tmp_path / f"log-{name}", name) for name in ("one", "two")]
    yield processes
    for process in processes:
        process.end()


def test_the_limited_account_is_limited(world: World, limited: Path) -> None:
    """Or the next test would prove nothing."""
    for verb, resource, right in (
        ("list", "secrets", "no"),
        ("list", "pods", "yes"),
        ("delete", "pods", "no"),
    ):
        environment = {**os.environ, "KUBECONFIG": str(limited)}
        program = str(binaries.ensure(["kubectl"])["kubectl"])
        done = subprocess.run(
            [program, "auth", "can-i", verb, resource, "-n", world.namespace],
            capture_output=True, text=True, env=environment, timeout=60,
        )  # fmt: skip
        assert done.stdout.strip() == right, (verb, resource, done.stderr)


def test_one_scales_and_the_other_takes_over(world: World, two: list[Process]) -> None:
    world.create_service()
    prefill, decode = world.add_worker(names.PREFILL), world.add_worker(names.DECODE)

    def load() -> None:
        prefill.exported.running += 1
        prefill.exported.prefill(1, tokens=1000, seconds=2.5)
        decode.exported.decode(1, tokens=5, seconds_per_token=0.02, batch=1)

    def scaled() -> bool:
        load()
        return world.replicas(names.PREFILL) > 1

    until(lambda: all(p.get("/healthz") == "ok\n" for p in two), "both serve")
    until(lambda: any(p.get("/readyz") == "leading\n" for p in two), "one leads")
    until(scaled, "prefill grows")
    leading = [p for p in two if p.get("/readyz") == "leading\n"]
    assert len(leading) == 1, [p.log() for p in two]
    (leader,) = leading
    (other,) = [p for p in two if p is not leader]
    until(lambda: bool(json.loads(leader.get("/api/services"))["services"]), "decisions are told")
    told: dict[str, Any] = json.loads(leader.get("/api/services"))["services"][0]
    assert told["roles"][names.PREFILL]["message"]
    metrics = leader.get("/metrics")
    assert (
        f'tandem_autoscaler_target_replicas{{namespace="{world.namespace}",role="prefill",service="chat"}}'
        in metrics
    )
    assert json.loads(other.get("/api/services"))["services"] == []

    writers = {
        w.user
        for w in world.cluster.audit.writes_since()
        if w.namespace == world.namespace and "scale" in w.resource
    }
    assert writers == {f"system:serviceaccount:{world.namespace}:autoscaler"}
    assert leader.end() == 0
    until(lambda: other.get("/readyz") == "leading\n", "the other leads", 30)
    for process in two:
        text = process.log() if process is other else ""
        assert "forbidden" not in text and "Traceback" not in text, text
    refused = [
        w for w in world.cluster.audit.writes_since() if w.namespace == world.namespace and w.status == 403
    ]
    assert refused == []
