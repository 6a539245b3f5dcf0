"""`kubectl tandem ...` by kubectl's own plugin mechanism, on a real API server."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import LightCluster, binaries
from tandem_api import names

MANIFEST: dict[str, Any] = {
    "apiVersion": names.API_VERSION,
    "kind": names.INFERENCE_SERVICE,
    "metadata": {"name": "chat", "namespace": "cli"},
    "spec": {
        "mode": "Disaggregated",
        "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"},
        "slo": {"ttft": "1s", "tpot": "40ms"},
        "prefill": {"maxReplicas": 2},
        "decode": {"maxReplicas": 2},
    },
}
Plugin = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def tandem(cluster: LightCluster) -> Plugin:
    """`kubectl tandem ARGUMENTS`, with the plugin found on the PATH."""
    program = binaries.ensure(["kubectl"])["kubectl"]
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": f"{scripts}:{os.environ['PATH']}",
        "COLUMNS": "100",
    }  # fmt: skip
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": "cli"}})
    cluster.api.post(f"/apis/{names.API_VERSION}/namespaces/cli/{names.INFERENCE_SERVICES}", MANIFEST)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), "tandem", *arguments], capture_output=True, text=True, env=environment, timeout=60
        )  # fmt: skip

    return run


def service(cluster: LightCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.api.get(
        f"/apis/{names.API_VERSION}/namespaces/cli/{names.INFERENCE_SERVICES}/chat"
    )
    return found


def test_a_service_without_a_status_is_told_as_unknown(tandem: Plugin) -> None:
    found = json.loads(tandem("status", "-n", "cli", "-o", "json").stdout)
    assert [one["name"] for one in found] == ["chat"]
    assert found[0]["roles"]["prefill"]["ready"] is None, "unknown is not zero"
    told = tandem("status", "chat", "-n", "cli")
    assert told.returncode == 0 and "is the operator running?" in told.stdout
    assert "cli" in tandem("status", "-A").stdout


def test_a_status_as_the_writers_write_it_is_read(cluster: LightCluster, tandem: Plugin) -> None:
    condition = {
        "type": "Ready", "status": "True", "reason": "AllReady", "message": "everything that was asked for serves",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    decision = {
        "role": "decode", "from": 1, "to": 2, "reason": "TPOTNeed", "message": "decode 1 -> 2: more tokens",
        "at": "2026-01-01T00:00:00Z", "numbers": {"need": "2"},
    }  # fmt: skip
    status = {
        "observedGeneration": 1, "conditions": [condition],
        "autoscaling": {"mode": "Auto", "roles": {"decode": decision}, "history": [decision]},
    }  # fmt: skip
    cluster.api.patch(
        f"/apis/{names.API_VERSION}/namespaces/cli/{names.INFERENCE_SERVICES}/chat/status", {"status": status}
    )
    assert "ready, AllReady" in tandem("status", "chat", "-n", "cli").stdout
    assert "decode 1 -> 2" in tandem("explain", "chat", "-n", "cli").stdout


def test_pause_and_resume_set_and_remove_the_annotation(cluster: LightCluster, tandem: Plugin) -> None:
    assert tandem("pause", "chat", "-n", "cli").returncode == 0
    assert service(cluster)["metadata"]["annotations"][names.ANNOTATION_PAUSED] == "true"
    assert tandem("resume", "chat", "-n", "cli").returncode == 0
    assert names.ANNOTATION_PAUSED not in service(cluster)["metadata"].get("annotations", {})


def test_a_mistake_is_one_line_and_status_2(tandem: Plugin) -> None:
    for arguments in (["status", "nobody", "-n", "cli"], ["diagnose", "chat", "-n", "cli", "--for", "1s"],
                      ["explain", "chat", "--context", "nowhere"]):  # fmt: skip
        done = tandem(*arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == "", done.stderr
