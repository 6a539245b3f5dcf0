"""Real sockets for the worker's tests: a scripted engine behind a gate, and workers as processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from e2e.cluster.control_plane import free_ports
from tandem_worker.gate import Gate

REPOSITORY = Path(__file__).parents[2]


def free_port() -> int:
    (port,) = free_ports(1)
    return port


class ScriptedEngine:
    """An engine's app that says what a test tells it to, one ASGI body message per `say`."""

    def __init__(self) -> None:
        self.sayings: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.status = 200
        self.content_type = "text/event-stream; charset=utf-8"
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.gone = asyncio.Event()

    def say(self, *pieces: bytes | None) -> None:
        """None ends the answer."""
        for piece in pieces:
            self.sayings.put_nowait(piece)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        if scope["path"] == "/metrics":
            await _answer(
                send,
                200,
                b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0.0\n",
                b"text/plain; version=0.0.4",
            )
            return
        if scope["method"] == "GET":
            await _answer(send, 200, b"{}", b"application/json")
            return
        while (await receive()).get("more_body"):
            pass
        watching = asyncio.create_task(self._watch(receive))
        self.started.set()
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status,
                    "headers": [(b"content-type", self.content_type.encode())],
                }
            )
            while (piece := await self.sayings.get()) is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            watching.cancel()

    async def _watch(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()
        self.sayings.put_nowait(None)


async def eventually(condition: Callable[[], bool], timeout_seconds: float = 10.0) -> None:
    """Wait for what has no event of its own to wait for."""
    async with asyncio.timeout(timeout_seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def _answer(send: Any, status: int, body: bytes, kind: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def chat_role() -> bytes:
    choice = b'{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}'
    return b'data: {"id":"c","choices":[' + choice + b"]}\n\n"


def chat_piece(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


def chat_usage(completion_tokens: int) -> bytes:
    return (
        b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":4,"completion_tokens":%d}}\n\n'
        % completion_tokens
    )


DONE = b"data: [DONE]\n\n"


class GatedServer:
    """A scripted engine behind a gate, on a real port."""

    def __init__(self, engine: ScriptedEngine, gate: Gate, client: httpx.AsyncClient) -> None:
        self.engine = engine
        self.gate = gate
        self.client = client

    @asynccontextmanager
    async def stream(self, path: str = "/v1/chat/completions") -> AsyncIterator[httpx.Response]:
        async with self.client.stream("POST", path, json={}) as response:
            yield response

    async def series(self) -> dict[str, float]:
        """The gate's samples, by name with labels."""
        text = (await self.client.get("/metrics")).text
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    async def until_in_flight(self, count: int) -> None:
        await eventually(lambda: len(self.gate.door.guests) == count)


class QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The test runner's own handlers stay."""
        yield


class Worker:
    """A `tandem-worker` process that serves on loopback."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_seconds: float = 20) -> int:
        return self.process.wait(timeout_seconds)


def worker_environment(**extra: str) -> dict[str, str]:
    roots = os.pathsep.join(str(REPOSITORY / root) for root in ("worker_image", "crds"))
    return {**os.environ, "PYTHONPATH": roots, **extra}


@contextmanager
def workers_on_loopback() -> Iterator[Callable[..., Worker]]:
    """Start `tandem-worker` processes: words of the command line, environment as keywords. They end together."""
    workers: list[Worker] = []

    def start(*words: str, **environment: str) -> Worker:
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "tandem_worker", *words, "--host", "127.0.0.1", "--port", str(port)],
            env=worker_environment(**environment), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        workers.append(worker := Worker(process, port))
        wait_until_healthy(worker)
        return worker

    try:
        yield start
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.communicate()


def wait_until_healthy(worker: Worker, timeout_seconds: float = 60) -> None:
    deadline = time.monotonic() + timeout_seconds
    # One client: making one costs a tenth of a second of what a starting engine needs itself.
    with httpx.Client(timeout=2, trust_env=False) as client:
        while time.monotonic() < deadline:
            if worker.process.poll() is not None:
                raise AssertionError(
                    f"the worker ended: {worker.process.stderr.read() if worker.process.stderr else ''}"
                )
            try:
                if client.get(worker.url + "/health").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
    raise AssertionError("the worker did not become healthy")
