"""Fixtures of the worker's tests; what they start runs on loopback (loopback.py)."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from tandem_worker.gate import Gate
from tandem_worker.gate.admission import Admission
from tests.worker.loopback import (
    GatedServer,
    QuietServer,
    ScriptedEngine,
    Worker,
    eventually,
    worker_environment,
    workers_on_loopback,
)


@pytest.fixture
def gate_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for control sockets, short enough for a socket's path. A gate's SIGTERM goes with the test."""
    folder, before = Path(tempfile.mkdtemp(prefix="tandem-")), signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("TANDEM_GATE_DIRECTORY", str(folder))
    yield folder / f"tandem-gate-{os.getuid()}"
    signal.signal(signal.SIGTERM, before)
    shutil.rmtree(folder)


@pytest.fixture
def podinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the pod's annotations."""
    path = tmp_path / "annotations"
    monkeypatch.setenv("TANDEM_PODINFO", str(path))
    return path


@pytest.fixture
async def gated(gate_directory: Path) -> AsyncIterator[Callable[..., Awaitable[GatedServer]]]:
    """Start scripted engines behind gates; they stop with the test."""
    running: list[tuple[uvicorn.Server, asyncio.Task[None], httpx.AsyncClient]] = []

    async def start(admission: Admission | None = None) -> GatedServer:
        engine = ScriptedEngine()
        gate = Gate(engine, admission=admission)
        server = QuietServer(
            uvicorn.Config(gate, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=2)
        )
        task = asyncio.create_task(server.serve())
        await eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20)
        running.append((server, task, client))
        return GatedServer(engine, gate, client)

    yield start
    for server, task, client in running:
        await client.aclose()
        server.should_exit = True
        await task


@pytest.fixture
def simulated(gate_directory: Path) -> Iterator[Callable[..., Worker]]:
    """Start simulated workers: flags as on the command line, environment as keywords."""
    with workers_on_loopback() as started:

        def start(*flags: str, profile: str = "h100-llama-8b", **environment: str) -> Worker:
            return started("served", "--simulate", profile, *flags, **environment)

        yield start


@pytest.fixture
def run_worker(gate_directory: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `tandem-worker` to its end."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tandem_worker", *words],
            env=worker_environment(**environment), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run
