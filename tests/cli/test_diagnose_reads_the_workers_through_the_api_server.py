"""Issue 6, item 3 for a user: live metrics through the pod proxy, or the status where that is forbidden."""

import json
import time
from typing import Any

import pytest
import yaml

from tests.autoscaler.exported import Exported
from tests.cli.conftest import Run
from tests.cli.services import pod, service
from tests.cli.stub_cluster import SERVICES, StubCluster

PODS = "/api/v1/namespaces/default/pods"
FAST = ("--for", "1500ms")
H100 = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
PREFILL_NUMBERS = {
    "promptsPerSecond": "8", "promptTokens": "1000", "secondsPerPrompt": "0.04", "busyWorkers": "0.32", "need": "1",
    "promptBaseSeconds": "0.015", "promptSecondsPerToken": "2.5e-05", "arrivalScv": "1", "coldStartSeconds": "90",
}  # fmt: skip
DECODE_NUMBERS = {
    "tokensPerSecond": "2400", "outputTokens": "300", "need": "3", "stepBaseSeconds": "0.0071",
    "stepSecondsPerSequence": "0.0005", "stepSecondsPerContextToken": "4.8e-08",
}  # fmt: skip


class LiveEngine:
    """Exports what `per_second` requests a second give, up to the moment at which it is asked."""

    def __init__(
        self, role: str, per_second: float, *, ttft: float, tpot: float, batch: float = 40.0
    ) -> None:
        self.role, self.per_second, self.ttft, self.tpot, self.batch = role, per_second, ttft, tpot, batch
        self.exported, self.at = Exported(), time.monotonic()
        self.exported.running = batch if role == "decode" else 1.0

    def text(self) -> str:
        now = time.monotonic()
        requests, self.at = self.per_second * (now - self.at), now
        if self.role == "prefill":
            self.exported.prefill(requests, tokens=1000, seconds=self.ttft)
        else:
            self.exported.decode(requests, tokens=300, seconds_per_token=self.tpot, batch=self.batch)
        return self.exported.text()


def decision(role: str, numbers: dict[str, str]) -> dict[str, Any]:
    return {
        "role": role, "from": 1, "to": 1, "reason": "Steady", "message": "", "at": "2026-11-30T10:00:00Z",
        "numbers": numbers,
    }  # fmt: skip


@pytest.fixture
def sick(stub: StubCluster) -> StubCluster:
    """One worker of each role; decode takes 60 ms per token, and 40 are promised."""
    roles = {"prefill": decision("prefill", PREFILL_NUMBERS), "decode": decision("decode", DECODE_NUMBERS)}
    made = service(autoscaling={"mode": "Auto", "roles": roles, "history": []})
    for role in ("prefill", "decode"):
        made["spec"][role]["template"] = H100
        stub.add(
            f"{SERVICES.format('namespaces/default/').replace('inferenceservices', 'workerpools')}/chat-{role}",
            {"metadata": {"name": f"chat-{role}", "namespace": "default"},
             "spec": {"service": "chat", "role": role, "replicas": 1}},
        )  # fmt: skip
    stub.add_service(made)
    for name, engine in (
        ("chat-0", LiveEngine("prefill", 8.0, ttft=0.08, tpot=0.0)),
        ("chat-1", LiveEngine("decode", 8.0, ttft=0.05, tpot=0.06, batch=140.0)),
    ):
        stub.add(f"{PODS}/{name}", pod(name, engine.role, podIP="10.0.0.1"))
        stub.add(f"{PODS}/{name}:8000/proxy/metrics", engine.text)
    return stub


def diagnosed(said: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("diagnose", "chat", *FAST, "-o", "json", *arguments))
    return found


def test_live_metrics_name_the_limit_with_evidence_and_predicted_fixes(sick: StubCluster, said: Run) -> None:
    found = diagnosed(said)
    assert found["diagnosis"] == "decode-bound" and found["note"] is None
    assert any("within TPOT 40ms" in text for text in found["evidence"])
    kinds = [fix["kind"] for fix in found["fixes"]]
    assert (
        "more decode workers" in kinds
        and "more GPUs per worker" in kinds
        and "more prefill workers" not in kinds
    )
    assert all(fix["predictedInTime"] is None or 0 <= fix["predictedInTime"] <= 1 for fix in found["fixes"])


def test_it_writes_nothing(sick: StubCluster, said: Run) -> None:
    diagnosed(said)
    assert sick.patches == []


def test_where_the_proxy_is_forbidden_the_status_must_do_and_that_is_said(
    sick: StubCluster, said: Run
) -> None:
    for name in ("chat-0", "chat-1"):
        sick.refuse[f"{PODS}/{name}:8000"] = 403
    found = diagnosed(said)
    assert found["note"].startswith("from the status alone") and "403" in found["note"]
    assert found["diagnosis"] == "decode-bound", "91 % of the requests within TPOT, says the status"
    assert found["fixes"][0]["kind"] == "more decode workers"


def test_workers_that_do_not_answer_are_no_healthy_workers(sick: StubCluster, said: Run) -> None:
    for name in ("chat-0", "chat-1"):
        sick.refuse[f"{PODS}/{name}:8000"] = 503
    sick.add_service(
        {
            **service(slo=None, autoscaling=None),
            "spec": sick.objects[f"{SERVICES.format('namespaces/default/')}/chat"]["spec"],
        }
    )  # type: ignore[index]
    found = diagnosed(said)
    assert found["diagnosis"] == "unknown" and "503" in found["note"]


def test_yaml_and_the_table_say_the_same(sick: StubCluster, said: Run) -> None:
    assert yaml.safe_load(said("diagnose", "chat", *FAST, "-o", "yaml"))["diagnosis"] == "decode-bound"
    told = said("diagnose", "chat", *FAST)
    assert "default/chat is decode-bound" in told and "what helps, best first" in told


@pytest.mark.parametrize("columns", [80, 140])
def test_the_tables_fit_the_terminal(
    sick: StubCluster, said: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = said("diagnose", "chat", *FAST).splitlines()
    assert max(map(len, lines)) <= columns and not any("…" in line for line in lines)


def test_mistakes_are_one_line(sick: StubCluster, said: Run) -> None:
    assert "no InferenceService nobody" in said("diagnose", "nobody", *FAST, status=2)
    promised = sick.objects[f"{SERVICES.format('namespaces/default/')}/chat"]
    assert isinstance(promised, dict)
    spec = {key: value for key, value in promised["spec"].items() if key != "slo"}
    sick.add_service({**promised, "spec": {**spec, "autoscaling": {"mode": "Off"}}})
    assert "makes no promise" in said("diagnose", "chat", *FAST, status=2)
    sick.add_service(
        {**promised, "spec": {**promised["spec"], "mode": "Colocated", "prefill": None, "decode": None}}
    )
    assert "has no pool for workers" in said("diagnose", "chat", *FAST, status=2)
