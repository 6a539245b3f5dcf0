"""`tandem-worker close` and SIGTERM close the gate; nothing that comes over the serving port can."""

import asyncio
import os
import signal
import socket
import stat
import time

import httpx
import pytest

from tandem_worker.gate import control
from tandem_worker.gate.closing import close_and_wait, gate_status
from tests.worker.loopback import DONE, chat_piece, eventually


async def test_close_waits_until_the_open_stream_has_ended(gated, gate_directory):
    server = await gated()
    server.engine.say(chat_piece("a"))
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        await anext(pieces)
        closing = asyncio.create_task(asyncio.to_thread(close_and_wait, deadline_seconds=20.0))
        await eventually(lambda: not server.gate.door.is_open)
        assert not closing.done()
        assert await asyncio.to_thread(gate_status) == {"state": "closing", "in_flight": 1, "processes": 1}
        server.engine.say(chat_piece("b", "stop"), DONE, None)
        async for _ in pieces:
            pass
    assert "nothing in flight" in await closing


async def test_close_ends_what_is_open_at_its_deadline(gated, gate_directory):
    server = await gated()
    server.engine.say(chat_piece("a"))
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        received = await anext(pieces)
        began = time.monotonic()
        closing = asyncio.create_task(asyncio.to_thread(close_and_wait, deadline_seconds=0.3))
        async for piece in pieces:
            received += piece
    assert "nothing in flight" in await closing
    assert time.monotonic() - began < 10
    assert b'"error"' in received and received.endswith(DONE)


async def test_settle_keeps_serving_first(gated, gate_directory):
    server = await gated()
    closing = asyncio.create_task(asyncio.to_thread(close_and_wait, deadline_seconds=5.0, settle_seconds=0.5))
    await asyncio.sleep(0.2)
    assert server.gate.door.is_open
    await closing
    assert not server.gate.door.is_open


def test_close_without_a_gate_lets_the_pod_end(run_worker):
    done = run_worker("close", "--deadline", "5")
    assert done.returncode == 0
    assert "no gate is running" in done.stderr


def test_a_socket_left_by_a_dead_process_is_cleared_away(gate_directory):
    gate_directory.mkdir(mode=0o700)
    left = gate_directory / "1-dead.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    assert gate_status() is None
    assert not left.exists()


async def test_only_the_owner_can_reach_the_socket(gated, gate_directory):
    await gated()
    (path,) = control.sockets(gate_directory)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(gate_directory.stat().st_mode) == 0o700


async def test_a_directory_open_to_others_is_not_used(gated, gate_directory, caplog):
    gate_directory.mkdir()
    os.chmod(gate_directory, 0o777)
    server = await gated()
    await server.client.get("/health")
    assert control.sockets(gate_directory) == []
    assert "open to others" in caplog.text


@pytest.mark.parametrize("path", ["/close", "/v1/close", "/gate", "/drain", "/shutdown"])
async def test_no_route_closes_the_gate(gated, path):
    server = await gated()
    server.engine.content_type = "application/json"
    server.engine.say(b"{}", None)
    await server.client.post(path, json={"do": "close", "within_seconds": 0})
    assert server.gate.door.is_open


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b'{"do":"open"}\n',
        b'{"do":"close"}\n',
        b'{"do":"close","within_seconds":"x"}\n',
        b"\n",
    ],
)
async def test_nonsense_on_the_socket_changes_nothing(gated, gate_directory, line):
    server = await gated()
    await server.client.get("/health")
    (path,) = control.sockets(gate_directory)
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(line)
    assert b"error" in await reader.readline()
    writer.close()
    assert server.gate.door.is_open


async def test_processes_of_one_engine_are_closed_and_counted_together(gated, gate_directory):
    first, second = await gated(), await gated()
    for server in (first, second):
        server.engine.say(chat_piece("a", "stop"), DONE, None)
        async with server.stream() as response:
            await response.aread()
    series = await first.series()
    assert series['tandem:requests_total{outcome="ok"}'] == 2
    assert series["tandem:ttft_seconds_count"] == 2
    await asyncio.to_thread(close_and_wait, deadline_seconds=5.0)
    assert not first.gate.door.is_open and not second.gate.door.is_open


def test_sigterm_closes_the_gate_and_open_streams_go_on(simulated):
    worker = simulated("--shutdown-timeout", "60")
    ask = {"prompt": "x", "max_tokens": 900, "stream": True}
    with httpx.Client(base_url=worker.url, timeout=30) as client:
        assert client.get("/health").status_code == 200
        with client.stream("POST", "/v1/completions", json=ask) as response:
            pieces = response.iter_bytes()
            received = next(pieces)
            worker.terminate()
            wait_until(lambda: client.get("/health").status_code == 503)
            refused = client.post("/v1/completions", json=ask)
            assert refused.status_code == 503 and "retry-after" in refused.headers
            received += b"".join(pieces)
    assert received.count(b'"text":"') == 900
    assert received.endswith(DONE)
    assert worker.wait() == 0


def test_sigterm_with_a_stream_that_outlives_the_shutdown_timeout_ends_it_in_words(simulated):
    worker = simulated("--shutdown-timeout", "2")
    ask = {"prompt": "x", "max_tokens": 5000, "stream": True}
    with httpx.stream("POST", worker.url + "/v1/completions", json=ask, timeout=30) as response:
        pieces = response.iter_bytes()
        received = next(pieces)
        worker.terminate()
        received += b"".join(pieces)
    assert b'"error"' in received[-400:]
    assert received.endswith(DONE)
    assert worker.wait() == 0


def test_prestop_then_sigterm_as_kubernetes_does_it(simulated, run_worker):
    worker = simulated()
    done = run_worker("close", "--deadline", "10")
    assert done.returncode == 0 and "nothing in flight" in done.stderr
    assert httpx.get(worker.url + "/health").status_code == 503
    assert '"closed"' in run_worker("status").stdout
    worker.process.send_signal(signal.SIGTERM)
    assert worker.wait() == 0


def wait_until(condition, timeout_seconds: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
