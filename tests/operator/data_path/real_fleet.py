"""The real vllm-router over `tandem-worker --simulate` processes, started with the words that the operator writes.

The router is given its workers by name in place of Kubernetes discovery; that, addresses and ports apart, its command
line is the Deployment's.
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from tandem_api import names
from tandem_operator.build.router_deployment import router_args
from tandem_operator.build.worker_pod import worker_pods
from tandem_operator.observe.spec import read_spec
from tandem_operator.plan.settings import Settings
from tests.operator.fleet import colocated, spec
from tests.worker.loopback import free_port, worker_environment

MODEL = {"uri": "path:///models/tiny", "name": "tiny"}


class Process:
    """One process on a port of its own."""

    def __init__(self, command: list[str], port: int, log: Path, **environment: str) -> None:
        self.port, self.url, self.log = port, f"http://127.0.0.1:{port}", log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=worker_environment(**environment), stdout=output, stderr=output
            )

    def until_it_answers(self, path: str, *, seconds: float = 150) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            try:
                if httpx.get(self.url + path, timeout=2, trust_env=False).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert self._process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()


class SimulatedWorker(Process):
    """One worker of a role, with the arguments that its pod would have."""

    def __init__(self, wish: dict[str, Any], role: str, folder: Path) -> None:
        parsed, error = read_spec(wish)
        assert parsed is not None, error
        (pod,) = worker_pods(
            namespace="team", service="chat", spec=parsed, role_name=role, ordinal=0,
            owner={"uid": "u", "name": "chat", "kind": names.INFERENCE_SERVICE, "apiVersion": names.API_VERSION},
            images=Settings().images,
        )  # fmt: skip
        port = free_port()
        words = [*pod["spec"]["containers"][0]["args"], "--host", "127.0.0.1", "--port", str(port)]
        # Short enough for the path of a socket, which a test's own folder is not.
        self._gate_folder = tempfile.TemporaryDirectory(prefix="tandem-")
        self.gate = {"TANDEM_GATE_DIRECTORY": self._gate_folder.name}
        super().__init__(
            [sys.executable, "-m", "tandem_worker", *words, "--simulate", "h100-llama-8b"],
            port,
            folder / f"{role}-{port}.log",
            VLLM_NIXL_SIDE_CHANNEL_HOST="127.0.0.1",
            VLLM_NIXL_SIDE_CHANNEL_PORT=str(free_port()),
            **self.gate,
        )

    def end(self) -> None:
        super().end()
        self._gate_folder.cleanup()

    def series(self, name: str) -> float:
        """Sum over the series of this name."""
        lines = httpx.get(self.url + "/metrics", trust_env=False).text.splitlines()
        found = [line for line in lines if line.startswith((name + "{", name + " "))]
        assert found, name
        return sum(float(line.split()[-1]) for line in found)

    def asked(self) -> float:
        """Requests that have come to an end at its gate, refused ones included."""
        return self.series("tandem:requests_total")

    def close_the_gate(self) -> None:
        """As preStop does, at once."""
        subprocess.run(
            [sys.executable, "-m", "tandem_worker", "close", "--deadline", "1"],
            env=worker_environment(**self.gate), check=True, timeout=30,
        )  # fmt: skip


class RealFleet:
    """`prefill` and `decode` workers, or `workers`, and the router before them."""

    def __init__(self, folder: Path, *, mode: str = "Disaggregated", **changes: Any) -> None:
        self.folder = folder
        base = spec if mode == "Disaggregated" else colocated
        self.wish = base(
            **{
                "model": MODEL,
                "engine": {"maxModelLen": 16384},
                "router": {"policy": "round_robin"},
                **changes,
            }
        )
        self._processes: list[Process] = []
        self._workers: dict[str, list[SimulatedWorker]] = {}
        self.router: Process

    def worker(self, role: str) -> SimulatedWorker:
        made = SimulatedWorker(self.wish, role, self.folder)
        self._processes.append(made)
        self._workers.setdefault(role, []).append(made)
        return made

    def engine_that_answers(self) -> SimulatedWorker:
        """The one whose tokens the client reads, where there is one of its role."""
        (worker,) = self._workers.get("decode") or self._workers["workers"]
        return worker

    def start_router(self, **workers: list[SimulatedWorker]) -> None:
        """`workers` by role; all answer before the router is asked for anything."""
        for each in (each for found in workers.values() for each in found):
            each.until_it_answers("/health")
        parsed, error = read_spec(self.wish)
        assert parsed is not None, error
        words = without_discovery(router_args(namespace="team", service="chat", spec=parsed))
        flags = {"prefill": "--prefill", "decode": "--decode"}
        for role, found in workers.items():
            if role == "workers":
                words += ["--worker-urls", *(each.url for each in found)]
            else:
                words += [word for each in found for word in (flags[role], each.url)]
        port, metrics = free_port(), free_port()
        here = {
            "0.0.0.0": "127.0.0.1",
            str(names.ROUTER_PORT): str(port),
            str(names.ROUTER_METRICS_PORT): str(metrics),
        }
        command = [
            sys.executable,
            "-m",
            "vllm_router.launch_router",
            *(here.get(word, word) for word in words),
        ]
        self.router = Process(command, port, self.folder / "router.log")
        self._processes.append(self.router)
        self.router.until_it_answers("/readiness")

    def ask(self, *, tokens: int = 4, prompt: str = "hello " * 50, timeout: float = 60) -> httpx.Response:
        """One streamed completion, read to its end."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "stream": True}
        return httpx.post(self.router.url + "/v1/completions", json=body, timeout=timeout, trust_env=False)

    def forget(self, worker: SimulatedWorker) -> None:
        """The router loses the worker, as when its label goes."""
        answer = httpx.post(
            self.router.url + "/remove_worker", params={"url": worker.url}, timeout=10, trust_env=False
        )
        assert answer.status_code == 200, answer.text

    def stop(self) -> None:
        for process in self._processes:
            process.end()


def without_discovery(words: list[str]) -> list[str]:
    """The command line less what only works inside a cluster: the flags of discovery with their values."""
    kept: list[str] = []
    drop = False
    for word in words:
        if word.startswith("--"):
            drop = word.startswith("--service-discovery") or word.endswith("selector")
        if not drop:
            kept.append(word)
    return kept


def is_whole(answer: httpx.Response, tokens: int) -> bool:
    """A stream with all its tokens and its end."""
    text = answer.text
    return (
        answer.status_code == 200
        and text.count("data: ") == tokens + 1
        and text.rstrip().endswith("data: [DONE]")
        and '"error"' not in text
    )
