"""A user's mistake gives a sentence and an exit status, never a traceback."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str, kubeconfig: str = "/nonexistent") -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "KUBERNETES_SERVICE_HOST"} | {
        "KUBECONFIG": kubeconfig
    }
    return subprocess.run(
        [sys.executable, "-m", "tandem_autoscaler", *arguments],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--source", "prometheus", "--listen", "127.0.0.1:0"], "--prometheus-url"),
        (
            ["--source", "prometheus", "--prometheus-url", "prom:9090", "--listen", "127.0.0.1:0"],
            "http://host:9090",
        ),
        (["--listen", "everywhere"], "HOST:PORT"),
        (["--listen", "127.0.0.1:0"], "/nonexistent"),
        (["--tick", "0"], "--tick"),
    ],
)
def test_a_mistake_is_named(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 2 and "in use" in done.stderr and "Traceback" not in done.stderr


def test_a_broken_kubeconfig_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "config"
    broken.write_text("{")
    done = run("--listen", "127.0.0.1:0", kubeconfig=str(broken))
    assert done.returncode == 2 and "Traceback" not in done.stderr and str(broken) in done.stderr
