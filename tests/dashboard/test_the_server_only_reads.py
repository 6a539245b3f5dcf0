"""What is answered, to whom, and with which guards."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from e2e.cluster.control_plane import free_ports
from tandem_autoscaler.dashboard.server import app
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.loop import Autoscaler
from tandem_autoscaler.main import main
from tandem_autoscaler.signals.prometheus import PrometheusSource
from tests.cli.services import service
from tests.cli.stub_cluster import StubCluster
from tests.dashboard.simulated_world import World

PAGE = Path(__file__).parents[2] / "autoscaler" / "tandem_autoscaler" / "dashboard" / "page"


def client(world: World, host: str = "127.0.0.1", *, local_only: bool = True) -> TestClient:
    web = app(world.trail, leading=lambda: True, clock=world.clock, tick_seconds=5.0, local_only=local_only)
    return TestClient(web, base_url=f"http://{host}:8091")


@pytest.mark.parametrize("path", ["/", "/main.js", "/style.css", "/api/fleet", "/api/fleet/a/b"])
def test_every_answer_forbids_what_the_page_does_not_need(path: str) -> None:
    headers = client(World()).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/api/fleet", "/api/fleet/prod/chat"])
def test_nothing_can_be_written(method: str, path: str) -> None:
    assert client(World()).request(method, path).status_code == 405


@pytest.mark.parametrize(
    "path", ["/docs", "/openapi.json", "/metrics", "/../server.py", "/%2e%2e/server.py", "/api/fleet/a"]
)
def test_nothing_else_is_there(path: str) -> None:
    assert client(World()).get(path).status_code == 404


def test_a_foreign_name_for_this_machine_is_not_answered() -> None:
    """DNS rebinding: a page of evil.example, whose name resolves to 127.0.0.1."""
    assert client(World(), "evil.example").get("/api/fleet").status_code == 400
    assert client(World(), "localhost").get("/api/fleet").status_code == 200
    assert client(World(), "[::1]").get("/api/fleet").status_code == 200
    assert client(World(), "tandem.example.com", local_only=False).get("/api/fleet").status_code == 200


def test_before_the_first_tick_nothing_is_known() -> None:
    told = client(World()).get("/api/fleet").json()
    assert told["state"] == "starting" and told["decidedAgeSeconds"] is None and told["services"] == []


def test_the_page_needs_no_other_server() -> None:
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?://|//cdn|@import|innerHTML|insertAdjacentHTML|document\.write|eval\(", text
        ), file


async def test_a_password_in_the_address_of_prometheus_is_not_told() -> None:
    source = PrometheusSource("http://me:secret@127.0.0.1:1/prefix", timeout_seconds=2.0)
    world = World()
    world.add("chat")
    monitored = Autoscaler(world, source, Settings(), clock=world.clock, watcher=world.trail.see)
    await monitored.tick()
    await source.close()
    told = client(world).get("/api/fleet/default/chat").text
    assert "http://127.0.0.1:1/prefix" in told and "secret" not in told


async def test_a_thousand_services_are_told_within_a_part_of_a_tick() -> None:
    world = World()
    for number in range(1000):
        world.add(f"chat-{number}")
    await world.run(5.0)
    with client(world) as asked:
        began = time.process_time()
        answer = asked.get("/api/fleet", headers={"Accept-Encoding": "gzip"})
        took = time.process_time() - began
    assert len(answer.json()["services"]) == 1000
    assert int(answer.headers["content-length"]) < 60_000
    assert took < 1.0, f"{took:.2f} s"


# --- the process -------------------------------------------------------------------------------------------
@pytest.fixture
def stub(tmp_path: Path) -> Iterator[StubCluster]:
    made = StubCluster()
    made.add_service(service())
    yield made
    made.close()


def test_the_process_serves_it_where_it_is_asked_to(stub: StubCluster, tmp_path: Path) -> None:
    port, own = free_ports(2)
    command = [
        sys.executable, "-m", "tandem_autoscaler", "--no-leader-election", "--tick", "0.2",
        "--listen", f"127.0.0.1:{own}", "--dashboard-port", str(port),
    ]  # fmt: skip
    environment, log = {**os.environ, "KUBECONFIG": str(stub.kubeconfig(tmp_path))}, tmp_path / "log"
    with log.open("w") as written:
        process = subprocess.Popen(command, env=environment, stderr=written)
    try:
        told = _until_told(f"http://127.0.0.1:{port}/api/fleet", process, log)
        assert [one["name"] for one in told["services"]] == ["chat"]
        found = httpx.get(f"http://127.0.0.1:{port}/api/fleet/default/chat").json()
        assert [change["to"] for change in found["changes"]] == [4]  # as the status remembers
    finally:
        process.terminate()
        process.wait(timeout=30)
    assert process.returncode == 0, log.read_text()
    assert f"the dashboard listens at http://127.0.0.1:{port}" in log.read_text()


def _until_told(url: str, process: "subprocess.Popen[bytes]", log: Path) -> dict[str, list[dict[str, str]]]:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            found: dict[str, list[dict[str, str]]] = httpx.get(url).json()
        except (httpx.TransportError, json.JSONDecodeError):
            found = {}
        if found.get("services"):
            return found
        time.sleep(0.2)
    raise AssertionError(f"{url} tells nothing: {log.read_text()}")


def test_a_port_that_is_taken_or_none_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        assert main(["--listen", "127.0.0.1:0", "--dashboard-port", str(port)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "--dashboard-port" in error and "in use" in error
    with pytest.raises(SystemExit):
        main(["--dashboard-port", "many"])
    assert "many is no port" in capsys.readouterr().err
