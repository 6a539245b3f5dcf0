"""Leadership, restart and rest, counted at the API server's audit log."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster import Write
from tandem_api import names
from tests.integration.operator.conftest import Operator, Place, colocated, disaggregated, eventually

pytestmark = pytest.mark.integration
StartOperator = Callable[..., Operator]


def lease_holder(place: Place) -> str:
    for lease in place.items("leases", "coordination.k8s.io/v1"):
        if lease["metadata"]["name"] == names.OPERATOR_LEASE:
            return lease["spec"].get("holderIdentity") or ""
    return ""


def test_a_restart_writes_nothing(place: Place, start_operator: StartOperator) -> None:
    first = start_operator()
    place.apply("chat", disaggregated())
    place.run_all("chat", count=2)
    place.run_router("chat")
    eventually(lambda: place.reason("chat") == "AllReady")
    place.scale("chat-prefill", 2)
    place.run_all("chat", count=3)
    eventually(lambda: place.service("chat")["status"]["summary"] == "3/3")
    assert first.stop() == 0

    mark = place.cluster.audit.mark()
    second = start_operator()
    eventually(lambda: lease_holder(place) == second.identity)
    # It has listed everything and looked at the service within a second of leading.
    time.sleep(5)
    assert second.writes_since(mark) == []
    # Still in command.
    place.scale("chat-prefill", 3)
    eventually(lambda: len(place.workers("chat")) == 4)


def test_of_two_operators_exactly_one_writes_and_the_other_takes_over(
    place: Place, start_operator: StartOperator
) -> None:
    mark = place.cluster.audit.mark()
    one = start_operator()
    eventually(lambda: lease_holder(place) == one.identity)
    other = start_operator()
    place.apply("chat", colocated())
    place.run_all("chat", count=1)
    eventually(lambda: place.condition("chat", "WorkersReady"))
    assert one.writes_since(mark)
    assert other.writes_since(mark) == []

    assert one.stop() == 0
    mark = place.cluster.audit.mark()
    place.scale("chat-workers", 2)
    eventually(lambda: len(place.workers("chat")) == 2)
    assert other.writes_since(mark)
    assert one.writes_since(mark) == []


def test_an_edit_made_while_no_operator_ran_is_carried_out(
    place: Place, start_operator: StartOperator
) -> None:
    first = start_operator()
    place.apply("chat", colocated())
    place.run_all("chat", count=1)
    eventually(lambda: place.condition("chat", "WorkersReady"))
    first.stop()
    place.scale("chat-workers", 2)
    start_operator()
    eventually(lambda: len(place.workers("chat")) == 2)


@pytest.fixture
def autoscaler(place: Place, tmp_path: Path) -> Iterator[None]:
    """The real autoscaler process beside the operator."""
    command = [
        sys.executable, "-m", "tandem_autoscaler", "--namespace", place.namespace, "--lease-namespace",
        place.namespace, "--tick", "5", "--listen", "127.0.0.1:0", "--scrape-timeout", "4",
    ]  # fmt: skip
    environment = {**os.environ, "KUBECONFIG": str(place.cluster.kubeconfig)}
    log = tmp_path / "autoscaler.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    yield
    process.terminate()
    code = process.wait(30)
    assert code == 0, log.read_text()


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("autoscaler")
def test_fifty_services_at_rest_cost_no_write(place: Place, start_operator: StartOperator) -> None:
    """Nobody writes anything in their namespace for a minute: neither operator nor autoscaler."""
    start_operator("--resync-seconds", "5")
    services = [f"svc-{number}" for number in range(50)]
    spec = colocated(autoscaling={"mode": "Auto"}, slo={"ttft": "1s", "tpot": "50ms"})
    for name in services:
        place.apply(name, spec)
    for name in services:
        place.run_all(name, count=1)
    for name in services:
        eventually(lambda name=name: place.reason(name, "WorkersReady") == "AllReady", seconds=60)
        eventually(lambda name=name: place.condition(name, "ScalingActive"), seconds=60)

    def writes(mark: int) -> list[Write]:
        return [
            write for write in place.cluster.audit.writes_since(mark) if write.namespace == place.namespace
        ]

    # The last children's events are still on their way, and the autoscaler's first window is not yet full; rest
    # begins when nothing was written for half a minute.
    mark = place.cluster.audit.mark()
    ends = time.monotonic() + 180
    while time.monotonic() < ends:
        time.sleep(30)
        if not writes(mark):
            break
        mark = place.cluster.audit.mark()

    mark = place.cluster.audit.mark()
    time.sleep(60)
    assert writes(mark) == []
