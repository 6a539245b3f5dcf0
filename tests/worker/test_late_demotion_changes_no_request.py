"""With the admission queue the gate reads bodies: the engine gets them as they came, and clients may leave."""

import asyncio
from typing import Any

import pytest

from tandem_worker.gate import Gate
from tandem_worker.gate.body import MAX_BODY_BYTES, RequestBody
from tandem_worker.gate.demotion import LateDemotion
from tandem_worker.gate.demotion.prefill_time import FEWEST_SAMPLES, PrefillTime
from tandem_worker.gate.measures import Held
from tests.worker.loopback import DONE, chat_piece

CHUNKS = {
    "one piece": [b'{"prompt":"abc"}'],
    "several pieces": [b'{"prom', b'pt":"a', b'bc"}'],
    "no body": [b""],
    "no JSON": [b"\x00\xff" * 100],
    "beyond the bound": [b"x" * (1 << 20)] * 7,
}


@pytest.mark.parametrize("late_demotion", ["0", "1"])
@pytest.mark.parametrize("pieces", CHUNKS.values(), ids=CHUNKS.keys())
async def test_the_body_reaches_the_engine_unchanged(gate_directory, monkeypatch, pieces, late_demotion):
    monkeypatch.setenv("TANDEM_LATE_DEMOTION", late_demotion)
    got: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            got.append(message["body"])
            if not message["more_body"]:
                break
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"choices":[{"finish_reason":"stop"}]}'})

    coming = list(pieces)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": coming.pop(0), "more_body": bool(coming)}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": []}
    await Gate(app)(scope, receive, send)
    assert got == pieces
    assert sent[0]["status"] == 200


async def test_of_a_long_body_only_the_bound_is_read_ahead():
    asked = 0

    async def receive() -> Any:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * (1 << 20), "more_body": True}

    body = RequestBody(receive)
    await body.read_ahead()
    assert asked == (MAX_BODY_BYTES >> 20) + 1
    assert body.prompt() is None


def full() -> LateDemotion:
    """A queue whose engine is busy for a long time."""
    line = PrefillTime()
    for tokens in range(FEWEST_SAMPLES):
        line.learn(tokens, 100.0 * tokens)
    return LateDemotion(
        target_seconds=lambda: 1000.0,
        tokens_of=lambda prompt: 1.0,
        held=Held(),
        clock=asyncio.get_running_loop().time,
        prefill_time=line,
    )


BODY = {"prompt": "word", "stream": True}


async def held_back(gated) -> tuple[Any, list[asyncio.Task]]:
    """A server with three prompts in the engine."""
    server = await gated(full())
    inside = [asyncio.create_task(server.client.post("/v1/completions", json=BODY)) for _ in range(3)]
    await server.until_in_flight(3)
    return server, inside


async def finish(server: Any, tasks: list[asyncio.Task]) -> None:
    for _ in tasks:
        server.engine.say(chat_piece("a", "stop"), DONE, None)
    server.gate.door.close(0.0)
    await asyncio.gather(*tasks)


async def test_a_client_that_hangs_up_while_held_is_gone_at_once(gated):
    server, inside = await held_back(gated)
    waiting = asyncio.create_task(server.client.post("/v1/completions", json=BODY))
    await server.until_in_flight(4)
    waiting.cancel()
    await server.until_in_flight(3)
    series = await server.series()
    assert series['tandem:requests_total{outcome="client_gone"}'] == 1
    await finish(server, inside)


async def test_a_held_request_is_ended_at_the_deadline(gated):
    server, inside = await held_back(gated)
    waiting = asyncio.create_task(server.client.post("/v1/completions", json=BODY))
    await server.until_in_flight(4)
    server.gate.door.close(0.05)
    response = await waiting
    assert response.status_code == 503 and "retry-after" in response.headers
    await finish(server, inside)
