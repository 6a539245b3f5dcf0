"""The promise end to end, without nodes: the real operator, the real vllm-router, real HTTP streams.

The engines are `tandem-worker --simulate`, started with the very arguments that the operator wrote into the pods, on
loopback addresses that the test gives to the pods.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem_api import names
from tests.integration.operator.conftest import (
    Manifest,
    Operator,
    Place,
    colocated,
    disaggregated,
    eventually,
)

pytestmark = pytest.mark.integration
vllm_router = pytest.importorskip(
    "vllm_router", reason="the router of users: pip install vllm-router==0.1.17"
)

TOKENS = 300


class LiveFleet:
    """Processes in place of pods: an engine for each worker and one router."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._block = f"127.{os.getpid() % 200 + 20}.{int(time.time()) % 250}"
        self._running: set[str] = set()
        self.host, self.port = "127.0.0.1", 0

    def _start(self, command: list[str], log: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as output:
            process = subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=output, stderr=output
            )
        self._processes.append(process)
        return process

    def run_engines(self, service: str, *, count: int) -> None:
        """An engine for each worker that has none yet, started with the pod's own arguments."""
        pods = eventually(lambda: (found := self.place.workers(service)) and len(found) == count and found)
        for pod in pods:
            name = pod["metadata"]["name"]
            if name in self._running:
                continue
            self._running.add(name)
            ip = f"{self._block}.{len(self._running)}"
            arguments = pod["spec"]["containers"][0]["args"]
            gate = self.folder / f"gate-{name}"
            gate.mkdir()
            self._start(
                [
                    sys.executable, "-m", "tandem_worker", *arguments,
                    "--host", ip, "--simulate", "h100-llama-8b",
                ],
                f"{name}.log",
                TANDEM_GATE_DIRECTORY=str(gate),
                VLLM_NIXL_SIDE_CHANNEL_HOST=ip,
            )  # fmt: skip
            eventually(lambda ip=ip: answers(ip, names.ENGINE_PORT, "/health") == 200, seconds=60)
            self._say_it_serves(pod, ip)

    def _say_it_serves(self, pod: Manifest, ip: str) -> None:
        state = {
            "name": "engine", "image": "x", "imageID": "x", "restartCount": 0, "ready": True,
            "started": True, "state": {"running": {}},
        }  # fmt: skip
        conditions = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
        self.place.set_status(
            pod,
            {
                "phase": "Running",
                "podIP": ip,
                "podIPs": [{"ip": ip}],
                "conditions": conditions,
                "containerStatuses": [state],
            },
        )

    def run_router(
        self,
        service: str,
        *,
        kubeconfig: Path | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
    ) -> None:
        """vllm-router with the Deployment's own arguments, save for addresses and ports."""
        path = self.place.path("deployments", names.router_name(service), group="apps/v1")
        deployment = self.place.cluster.api.get(path)
        words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        self.host, self.port, metrics = host, port or free_port(), free_port()
        here = {
            "0.0.0.0": host,
            str(names.ROUTER_PORT): str(self.port),
            str(names.ROUTER_METRICS_PORT): str(metrics),
        }
        command = [
            sys.executable,
            "-m",
            "vllm_router.launch_router",
            *(here.get(word, word) for word in words),
        ]
        config = kubeconfig or self.place.cluster.kubeconfig
        self._start(command, "router.log", KUBECONFIG=str(config))
        eventually(lambda: answers(host, self.port, "/readiness") == 200, seconds=60)

    def ask(self, tokens: int = 4) -> tuple[int, str]:
        """One streamed completion through the router: status and the whole body."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        body = {"model": "tiny", "prompt": "hello " * 50, "max_tokens": tokens, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def answers(host: str, port: int, path: str) -> int:
    try:
        connection = http.client.HTTPConnection(host, port, timeout=5)
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def live(place: Place, tmp_path: Path) -> Iterator[LiveFleet]:
    fleet = LiveFleet(place, tmp_path)
    yield fleet
    fleet.stop()


MODEL = {"uri": "path:///models/tiny", "name": "tiny"}


@pytest.mark.parametrize(
    ("spec", "role", "workers"),
    [
        (disaggregated(model=MODEL, engine={"maxModelLen": 4096}), "decode", 2),
        (colocated(model=MODEL, engine={"maxModelLen": 4096}), "workers", 1),
    ],
    ids=["disaggregated", "colocated"],
)
def test_every_open_stream_ends_whole(
    place: Place, operator: Operator, live: LiveFleet, spec: Manifest, role: str, workers: int
) -> None:
    place.apply("chat", spec)
    live.run_engines("chat", count=workers)
    live.run_router("chat")
    assert live.ask()[0] == 200
    place.scale(f"chat-{role}", 2)
    live.run_engines("chat", count=workers + 1)
    eventually(lambda: place.service("chat")["status"]["roles"][role]["summary"] == "2/2")

    streams: list[Any] = []
    threads = [threading.Thread(target=lambda: streams.append(live.ask(TOKENS))) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    place.scale(f"chat-{role}", 1)
    leaving = eventually(lambda: place.workers("chat", serving=False))[0]["metadata"]["name"]
    # New requests go on being served while one worker leaves.
    assert {live.ask()[0] for _ in range(8)} == {200}
    for thread in threads:
        thread.join()

    assert len(streams) == 8
    for status, body in streams:
        assert status == 200
        assert body.count("data: ") == TOKENS + 1
        assert body.rstrip().endswith("data: [DONE]")
        assert '"error"' not in body
    eventually(lambda: leaving not in [pod["metadata"]["name"] for pod in place.workers("chat")], seconds=60)


def test_a_worker_that_is_taken_back_gets_new_requests_and_its_open_streams_end_whole(
    place: Place, operator: Operator, live: LiveFleet
) -> None:
    place.apply(
        "chat", colocated(model=MODEL, engine={"maxModelLen": 4096}, router={"policy": "round_robin"})
    )
    live.run_engines("chat", count=1)
    live.run_router("chat")
    place.scale("chat-workers", 2)
    live.run_engines("chat", count=2)
    eventually(lambda: place.service("chat")["status"]["roles"]["workers"]["summary"] == "2/2")
    eventually(lambda: live.ask()[0] == 200)

    streams: list[Any] = []
    threads = [threading.Thread(target=lambda: streams.append(live.ask(3 * TOKENS))) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    place.scale("chat-workers", 1)
    leaving = eventually(lambda: place.workers("chat", serving=False))[0]
    place.scale("chat-workers", 2)
    eventually(lambda: len(place.workers("chat", serving=True)) == 2)

    # More than the open streams can account for.
    enough = finished(leaving) + len(threads) + 1
    eventually(lambda: [live.ask() for _ in range(4)] and finished(leaving) >= enough, seconds=30)
    for thread in threads:
        thread.join()
    assert [(status, body.count("data: ")) for status, body in streams] == [(200, 3 * TOKENS + 1)] * 8
    assert leaving["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in place.workers("chat")}


def finished(pod: Manifest) -> float:
    """Requests that have ended at this worker's gate."""
    connection = http.client.HTTPConnection(pod["status"]["podIP"], names.ENGINE_PORT, timeout=5)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("tandem:requests_total{"))
