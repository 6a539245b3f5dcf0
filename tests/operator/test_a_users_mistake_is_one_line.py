"""The command line and the spec: mistakes get a sentence, never a traceback."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem_operator.arguments import read_arguments
from tandem_operator.observe.spec import read_spec
from tests.operator.fleet import Fleet, colocated, spec


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "TANDEM"))}
    return subprocess.run(
        [sys.executable, "-m", "tandem_operator.main", *arguments],
        capture_output=True, text=True, timeout=60, env={**kept, **environment},
    )  # fmt: skip


def test_no_kubeconfig(tmp_path: Path) -> None:
    done = run("--port", "0", "--host", "127.0.0.1", HOME=str(tmp_path), KUBECONFIG=str(tmp_path / "none"))
    assert done.returncode == 2
    assert "no usable Kubernetes configuration" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run(
            "--host", "127.0.0.1", "--port", str(taken.getsockname()[1]), KUBECONFIG=str(tmp_path / "none")
        )
    assert done.returncode == 2
    assert "cannot be served" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "http"], "--port http: must be a number"),
        (["--workers", "0"], "must be a number of at least 1"),
        (["--image-pull-policy", "Sometimes"], "must be Always, IfNotPresent or Never"),
        (["--log-level", "loud"], "must be debug, info, warning or error"),
    ],
)
def test_a_wrong_option(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(arguments, {})
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_the_environment_speaks_where_the_command_line_does_not() -> None:
    environ = {
        "TANDEM_WORKER_IMAGE": "w:1",
        "POD_NAMESPACE": "system",
        "POD_NAME": "operator-0",
        "TANDEM_PORT": "9",
    }
    given = read_arguments(["--port", "7"], environ)
    assert (given.images.worker, given.lease_namespace) == ("w:1", "system")
    assert (given.identity, given.port) == ("operator-0", 7)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({}, "spec.model"),
        (colocated(workers={"gpus": 1.5}), "spec.workers.gpus"),
        (colocated(slo={"ttft": "fast", "tpot": "40ms"}), "spec.slo.ttft"),
        (colocated(nonsense=1), "spec.nonsense"),
        (spec(prefill=None), "needs both"),
        (colocated(autoscaling={"mode": "Auto"}), "set spec.slo"),
        (colocated(engine={"type": "sglang", "lateDemotion": True}), "is for engine.type vllm"),
        (colocated(workers={"minReplicas": 3, "maxReplicas": 2}), "minReplicas 3 exceeds maxReplicas 2"),
        (colocated(workers={"template": {"containers": []}}), "only metadata and spec"),
        (colocated(workers={"template": {"spec": {"containers": "x"}}}), "list of named containers"),
        (colocated(workers={"template": {"spec": {"terminationGracePeriodSeconds": 3}}}), "at least 10"),
    ],
)
def test_a_spec_that_cannot_be_carried_out(wish: dict[str, Any], words: str) -> None:
    read, sentence = read_spec(wish)
    assert read is None
    assert words in str(sentence)
    assert "\n" not in str(sentence)
    fleet = Fleet(wish)
    decided = fleet.step()
    assert decided.actions == ()
    ready = fleet.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    assert words in ready["message"]
