"""The promise end to end, without nodes: the real operator, the real vllm-router, real HTTP streams.

The engines are `tandem-worker --simulate`, started with the very arguments that the operator wrote into the pods, on
loopback addresses that the test gives to the pods.
"""

import http.client
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.control_plane import free_ports
from tandem_api import names
from tests.integration.operator.conftest import (
    Manifest,
    Operator,
    Place,
    colocated,
    disaggregated,
    eventually,
)
from tests.integration.published_crds import inference_pool_crd

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
        self._engines: dict[str, subprocess.Popen[bytes]] = {}
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
            if name in self._engines:
                continue
            ip = f"{self._block}.{len(self._engines) + 1}"
            arguments = pod["spec"]["containers"][0]["args"]
            gate = self.folder / f"gate-{name}"
            gate.mkdir()
            self._engines[name] = self._start(
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
        free, metrics = free_ports(2)
        self.host, self.port = host, port or free
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

    def end_engine(self, name: str) -> None:
        """At once, for its pod is gone: a kubelet would have let it end its streams first."""
        self._engines[name].kill()

    def ask(self, tokens: int = 4) -> tuple[int, str]:
        """One streamed completion through the router: status and the whole body."""
        return ask(self.host, self.port, tokens)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def ask(host: str, port: int, tokens: int) -> tuple[int, str]:
    """One streamed completion: status and the whole body; status 0 where nobody answers or the answer breaks off."""
    connection = http.client.HTTPConnection(host, port, timeout=120)
    try:
        body = {"model": "tiny", "prompt": "hello " * 50, "max_tokens": tokens, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, repr(error)


def answers(host: str, port: int, path: str) -> int:
    try:
        connection = http.client.HTTPConnection(host, port, timeout=5)
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0


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


# --- past the router ----------------------------------------------------------------------------------------
# Longer than a drain waits for the routers, which it can ask: 3 s, and 2 s between two readings.
HEARS_LATE_SECONDS = 6.0


class LatePicker:
    """An endpoint picker of the pool `chat`: in turn the Ready pods that its selector found some seconds ago."""

    def __init__(self, place: Place, live: LiveFleet) -> None:
        self._place, self._live, self._turn = place, live, itertools.count()
        path = place.path("inferencepools", "chat", group="inference.networking.k8s.io/v1")
        pool = eventually(lambda: found(place, path), what="the pool is made")
        self._labels = pool["spec"]["selector"]["matchLabels"]
        (target,) = pool["spec"]["targetPorts"]
        self._port = target["number"]
        self._heard: list[tuple[float, list[str]]] = []
        self._known: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> "LatePicker":
        self._look()
        self._heard = [(0.0, self._heard[0][1])]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def ask(self, tokens: int) -> tuple[int, str]:
        """To the next worker, past the router."""
        late = time.monotonic() - HEARS_LATE_SECONDS
        addresses = [heard for at, heard in self._heard if at <= late][-1]
        return ask(addresses[next(self._turn) % len(addresses)], self._port, tokens)

    def _listen(self) -> None:
        while not self._stop.wait(0.1):
            self._look()

    def _look(self) -> None:
        pods = {pod["metadata"]["name"]: pod for pod in self._place.items("pods")}
        for name in self._known - set(pods):
            self._live.end_engine(name)
        in_pool = {
            name: pod["status"]["podIP"]
            for name, pod in sorted(pods.items())
            if self._labels.items() <= pod["metadata"]["labels"].items() and pod["status"].get("podIP")
        }
        self._known = (self._known & set(pods)) | set(in_pool)
        self._heard.append((time.monotonic(), list(in_pool.values())))


def found(place: Place, path: str) -> Manifest | None:
    status, text = place.cluster.api.request("GET", path)
    return json.loads(text) if status == 200 else None


def test_no_stream_is_cut_past_the_router_either(
    place: Place, operator: Operator, live: LiveFleet, tmp_path: Path
) -> None:
    """Behind an InferencePool, with a picker that hears late of a worker's leaving; there is no router at all."""
    place.cluster.kubectl("apply", "--server-side", "-f", str(inference_pool_crd()))
    gateway = {"parents": [{"name": "public"}], "inferencePool": {"endpointPicker": {"name": "epp"}}}
    place.apply(
        "chat",
        colocated(model=MODEL, engine={"maxModelLen": 4096}, router={"gateway": gateway, "replicas": 0}),
    )
    live.run_engines("chat", count=1)
    place.scale("chat-workers", 2)
    live.run_engines("chat", count=2)
    eventually(lambda: place.service("chat")["status"]["roles"]["workers"]["summary"] == "2/2")

    with LatePicker(place, live) as picker:
        streams: list[tuple[int, str]] = []
        threads = [threading.Thread(target=lambda: streams.append(picker.ask(TOKENS))) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        place.scale("chat-workers", 1)
        leaving = eventually(lambda: place.workers("chat", serving=False))[0]["metadata"]["name"]
        short = []
        # One request at a time, so that the leaving worker is idle at most readings.
        while leaving in [pod["metadata"]["name"] for pod in place.workers("chat")]:
            short.append(picker.ask(4))
            time.sleep(0.3)
        short += [picker.ask(4) for _ in range(4)]
        for thread in threads:
            thread.join()

    assert {status for status, _ in short} == {200}, short
    assert [(status, body.count("data: ")) for status, body in streams] == [(200, TOKENS + 1)] * 8
    assert not [body for _, body in short + streams if '"error"' in body]
