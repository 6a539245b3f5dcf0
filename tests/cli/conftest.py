"""A stub cluster with one service, and a kubeconfig that leads to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tandem_autoscaler.cli.main import main
from tests.cli.services import event, pod, service
from tests.cli.stub_cluster import StubCluster

Run = Callable[..., str]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubCluster]:
    made = StubCluster()
    monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig(tmp_path)))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    made.add_service(service())
    pods = "/api/v1/namespaces/default/pods"
    for one in (pod("chat-0", "prefill"), pod("chat-1", "decode")):
        made.add(f"{pods}/{one['metadata']['name']}", one)
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    for number, one in enumerate(
        (
            event("ScaledUp", "decode 3 -> 4: more tokens", "2026-11-30T10:00:00.000000Z"),
            event("ScaleBlocked", "gpuBudget 12", "2026-11-30T08:00:00.000000Z"),
            event("ScaledUp", "of another service", "2026-11-30T10:00:00.000000Z", about="other"),
            event("ScaledUp", "of an earlier chat", "2026-11-30T10:00:00.000000Z", uid="old"),
        )
    ):
        made.add(f"{events}/{number}", one)
    yield made
    made.close()


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Run:
    """Standard output of a command that ends with `status`; of one that fails, standard error."""

    def run(*arguments: str, status: int = 0) -> str:
        assert main(arguments) == status
        captured = capsys.readouterr()
        return captured.err if status == 2 else captured.out

    return run
