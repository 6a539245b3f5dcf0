"""Issue 7, item 4: the user's view of a service, read through their own kubeconfig."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem_autoscaler.cli.view import age
from tandem_autoscaler.meanings import MEANINGS, explained
from tests.cli.conftest import Run
from tests.cli.services import condition, pod, service
from tests.cli.stub_cluster import StubCluster

PODS = "/api/v1/namespaces/default/pods"


def test_the_list_has_a_line_per_service_with_measured_against_target(stub: StubCluster, said: Run) -> None:
    stub.add_service(service("code", gpus=None, slo=None, conditions=None, roles=None))
    lines = said("status").splitlines()
    (chat,) = [line for line in lines if line.lstrip().startswith("chat")]
    assert chat.split()[:8] == ["chat", "True", "P", "2/2", "D", "3/4", "720ms/1s", "44ms/40ms"]
    (code,) = [line for line in lines if line.lstrip().startswith("code")]
    assert code.split()[:9] == ["code", "-", "P", "-", "D", "-", "-", "-", "-"], "unknown is not zero"


def test_all_namespaces_are_one_flag_away(stub: StubCluster, said: Run) -> None:
    stub.add_service(service("chat", "ml"))
    assert "ml" not in said("status")
    assert [one["namespace"] for one in json.loads(said("status", "-A", "-o", "json"))] == ["default", "ml"]


def test_one_service_is_told_with_its_pods_and_what_ails_them(stub: StubCluster, said: Run) -> None:
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    stub.add(f"{PODS}/chat-2", pod("chat-2", "decode", ready=False, containerStatuses=[waiting]))
    told = said("status", "chat")
    assert "default/chat: ready, Scaling" in told and "6 of 12 GPUs" in told
    assert "chat-2: ImagePullBackOff: no such image" in told
    found = json.loads(said("status", "chat", "-o", "json"))
    assert found["slo"]["tpot"] == {"target": "40ms", "measured": "44ms", "attainment": "91%"}
    assert [one["ready"] for one in found["pods"]] == [True, True, False]
    assert yaml.safe_load(said("status", "chat", "-o", "yaml")) == found


def test_a_status_of_an_earlier_spec_is_called_so(stub: StubCluster, said: Run) -> None:
    stub.add_service(service(observedGeneration=2))
    assert "earlier version of the spec" in said("status", "chat")


def test_explain_gives_the_decision_in_words_and_only_this_services_events(
    stub: StubCluster, said: Run
) -> None:
    told = said("explain", "chat")
    assert "decode 3 -> 4" in told and "812 tokens/s" in told
    assert "TPOT p95 above 40ms" in told
    assert "sequences per worker at which TPOT is just kept" in told and "31.2ms" in told
    assert "gpuBudget 12" in told and "another service" not in told and "earlier chat" not in told
    found = json.loads(said("explain", "chat", "-o", "json"))
    assert found["decisions"]["decode"]["to"] == 4
    assert [one["reason"] for one in found["events"]] == ["ScaledUp", "ScaleBlocked"]


def test_a_number_without_a_meaning_keeps_its_name() -> None:
    assert explained({"somethingNew": "7", "need": "4"}) == [
        (MEANINGS["need"].words, "4 workers"),
        ("somethingNew", "7"),
    ]


def test_a_service_without_decisions_says_what_to_look_at(stub: StubCluster, said: Run) -> None:
    stub.add_service(service(autoscaling=None))
    assert "is the autoscaler running" in said("explain", "chat")


def test_pausing_is_an_annotation_and_is_not_done_twice(stub: StubCluster, said: Run) -> None:
    assert "is paused" in said("pause", "chat")
    (path, patch) = stub.patches[-1]
    assert path.endswith("/namespaces/default/inferenceservices/chat")
    assert patch == {"metadata": {"annotations": {"tandem.dev/paused": "true"}}}
    paused = service()
    paused["metadata"]["annotations"] = {"tandem.dev/paused": "true"}
    stub.add_service(paused)
    assert "already" in said("pause", "chat") and len(stub.patches) == 1
    assert "Paused" in said("status") and "paused by annotation" in said("explain", "chat")
    assert "is sized again" in said("resume", "chat")
    assert stub.patches[-1][1] == {"metadata": {"annotations": {"tandem.dev/paused": None}}}


def test_the_namespace_is_the_contexts_unless_n_names_another(
    stub: StubCluster, said: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.add_service(service("code", "ml"))
    monkeypatch.setenv("KUBECONFIG", str(stub.kubeconfig(tmp_path, namespace="ml")))
    assert "ml/code" in said("status", "code")
    assert "default/chat" in said("status", "chat", "-n", "default")


def test_a_kubeconfig_may_be_named(
    stub: StubCluster, said: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stub.kubeconfig(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")
    assert "chat" in said("status", "--kubeconfig", str(path))
    assert "kubectl-tandem" in stub.agents


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "nobody"], ("no InferenceService nobody in namespace default", "chat")),
        (["explain", "chat", "-n", "empty"], ("in namespace empty", "none in it")),
        (["status", "--context", "elsewhere"], ("API server cannot be reached",)),
        (["status", "--context", "nowhere"], ("nowhere", "--context")),
        (["status", "--kubeconfig", "/no/such/file"], ("/no/such/file",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(
    stub: StubCluster, said: Run, arguments: list[str], words: tuple[str, ...]
) -> None:
    error = said(*arguments, status=2)
    assert error.count("\n") == 1 and all(word in error for word in words), error


@pytest.mark.parametrize(
    ("status", "words"), [(403, "refuses"), (404, "install Tandem"), (500, "refused with 500")]
)
def test_what_the_api_server_refuses_is_one_line(
    stub: StubCluster, said: Run, status: int, words: str
) -> None:
    stub.refuse["/apis/tandem.dev"] = status
    for arguments in (["status"], ["explain", "chat"], ["pause", "chat"]):
        error = said(*arguments, status=2)
        assert error.count("\n") == 1 and words in error, error


def test_without_any_kubeconfig_it_says_where_it_looked(said: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/a:/nowhere/b")
    assert "/nowhere/a:/nowhere/b" in said("status", status=2)


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize(
    "arguments", [("status",), ("status", "-A"), ("status", "chat"), ("explain", "chat")]
)
def test_the_tables_fit_the_terminal(
    stub: StubCluster, said: Run, monkeypatch: pytest.MonkeyPatch, columns: int, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = said(*arguments).splitlines()
    assert max(map(len, lines)) <= columns and not any("…" in line for line in lines)


@pytest.mark.parametrize(
    "broken",
    [{"conditions": "none"}, {"roles": []}, {"autoscaling": {"roles": None, "history": [1]}}, {"slo": {}},
     {"conditions": [condition("Ready", "True", "AllReady") | {"lastTransitionTime": "soon"}]}],
    ids=lambda value: next(iter(value)),
)  # fmt: skip
def test_a_status_that_someone_else_wrote_is_no_traceback(
    stub: StubCluster, said: Run, broken: dict[str, Any]
) -> None:
    stub.add_service(service(**broken))
    for arguments in (["status"], ["status", "chat"], ["explain", "chat"]):
        assert "chat" in said(*arguments)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (90000, "1d"), (-5, "0s")],
)
def test_ages_are_written_as_kubectl_does(seconds: int, text: str) -> None:
    assert age(1_000_000.0, 1_000_000.0 + seconds) == text
    assert age(None, 0.0) == "-"
