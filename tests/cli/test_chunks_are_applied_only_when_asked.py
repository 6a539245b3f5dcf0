"""`kubectl tandem diagnose` of a Colocated service: chunks and modes are told, and written only with --apply-chunks."""

import json
import time
from typing import Any

import pytest

from tests.autoscaler.exported import Exported
from tests.cli.conftest import Run
from tests.cli.services import pod, service
from tests.cli.stub_cluster import SERVICES, StubCluster

SERVICE = f"{SERVICES.format('namespaces/default/')}/chat"
FAST = ("--for", "1500ms")
# A worker that computes 300 tokens in 15 ms and 16,000 in 0.5 s, and one token of twelve answers in 10 ms.
NUMBERS = {
    "promptsPerSecond": "5", "promptTokens": "771", "secondsPerPrompt": "0.04", "busyWorkers": "0.2", "need": "1",
    "promptBaseSeconds": "0.012", "promptSecondsPerToken": "2.2e-05", "arrivalScv": "1", "coldStartSeconds": "90",
    "tokensPerSecond": "750", "outputTokens": "150", "stepBaseSeconds": "0.0071", "stepSecondsPerSequence": "0.0002",
    "stepSecondsPerContextToken": "4e-08",
}  # fmt: skip


class MixedEngine:
    """Five requests a second, 3 % of them with a long prompt, up to the moment at which it is asked."""

    def __init__(self) -> None:
        self.exported, self.at = Exported(), time.monotonic()
        self.exported.running = 8.0

    def text(self) -> str:
        now = time.monotonic()
        requests, self.at = 5.0 * (now - self.at), now
        self.exported.prefill(0.97 * requests, tokens=300, seconds=0.3)
        self.exported.prefill(0.03 * requests, tokens=16_000, seconds=1.2)
        self.exported.decode(requests, tokens=150, seconds_per_token=0.009, batch=8.0)
        return self.exported.text()


@pytest.fixture
def colocated(stub: StubCluster) -> StubCluster:
    last = {
        "role": "workers", "from": 1, "to": 1, "reason": "Steady", "message": "", "at": "2026-11-30T10:00:00Z",
        "numbers": NUMBERS,
    }  # fmt: skip
    made = service(autoscaling={"mode": "Auto", "roles": {"workers": last}, "history": []})
    made["spec"] = {
        "mode": "Colocated", "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "name": "llama-8b"},
        "slo": {"ttft": "400ms", "tpot": "30ms", "percentile": 95}, "workers": {"minReplicas": 1, "maxReplicas": 6},
    }  # fmt: skip
    stub.add_service(made)
    stub.add(
        "/apis/tandem.dev/v1alpha1/namespaces/default/workerpools/chat-workers",
        {"metadata": {"name": "chat-workers", "namespace": "default"},
         "spec": {"service": "chat", "role": "workers", "replicas": 1}},
    )  # fmt: skip
    stub.add("/api/v1/namespaces/default/pods/chat-0", pod("chat-0", "workers", podIP="10.0.0.1"))
    stub.add("/api/v1/namespaces/default/pods/chat-0:8000/proxy/metrics", MixedEngine().text)
    return stub


def diagnosed(said: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("diagnose", "chat", *FAST, "-o", "json", *arguments))
    return found


def test_what_is_advised_is_told_and_nothing_is_written(colocated: StubCluster, said: Run) -> None:
    found = diagnosed(said)
    chunks = found["chunking"]
    assert chunks["now"]["maxBatchedTokens"] == 2048 and chunks["best"]["longPromptThreshold"] > 0
    assert chunks["worthARestart"] and chunks["best"]["workers"] <= chunks["now"]["workers"]
    assert found["modes"]["now"] == "Colocated" and found["modes"]["colocatedGpus"] >= 1
    assert colocated.patches == []


def test_with_the_flag_the_service_gets_what_was_told(colocated: StubCluster, said: Run) -> None:
    best = diagnosed(said, "--apply-chunks")["chunking"]["best"]
    [(path, patch)] = colocated.patches
    assert path == SERVICE
    assert patch["spec"] == {
        "engine": {"chunkedPrefill": {
            "enabled": True, "maxBatchedTokens": best["maxBatchedTokens"],
            "longPromptThreshold": best["longPromptThreshold"],
        }}
    }  # fmt: skip


def test_the_report_names_both_in_the_words_of_the_manifest(colocated: StubCluster, said: Run) -> None:
    told = " ".join(said("diagnose", "chat", *FAST).split())
    assert "chunks: {maxBatchedTokens:" in told and "--apply-chunks writes it" in told
    assert "mode: Colocated needs" in told
