"""At the deadline every client gets an end: an error event within a stream, a 503 where nothing has been sent."""

import asyncio
import json

from tests.worker.loopback import DONE, chat_piece, chat_role, eventually


async def test_an_open_stream_gets_an_error_event_and_done(gated):
    server = await gated()
    server.engine.say(chat_role(), chat_piece("a"))
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        received = await anext(pieces)
        server.gate.door.close(0.05)
        async for piece in pieces:
            received += piece
    assert received.startswith(chat_role() + chat_piece("a"))
    events = received.decode().removesuffix("\n\n").split("\n\n")
    assert json.loads(events[-2].removeprefix("data: "))["error"]["code"] == 503
    assert events[-1] == "data: [DONE]"
    await server.until_in_flight(0)
    assert server.engine.cancelled.is_set()
    assert (await server.series())['tandem:requests_total{outcome="aborted"}'] == 1


async def test_a_stream_of_which_nothing_has_come_gets_a_503_not_a_200(gated):
    server = await gated()
    asking = asyncio.create_task(server.client.post("/v1/chat/completions", json={}))
    await server.engine.started.wait()
    server.engine.say(chat_role())
    server.gate.door.close(0.05)
    response = await asking
    assert response.status_code == 503
    assert "retry-after" in response.headers


async def test_a_plain_request_gets_a_503(gated):
    server = await gated()
    server.engine.content_type = "application/json"
    asking = asyncio.create_task(server.client.post("/v1/completions", json={}))
    await server.engine.started.wait()
    server.gate.door.close(0.05)
    response = await asking
    assert response.status_code == 503
    assert response.json()["error"]["code"] == 503


async def test_an_app_that_swallows_its_cancellation_is_ended_all_the_same(gated):
    server = await gated()

    async def stubborn(scope, receive, send):
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        await send({"type": "http.response.body", "body": chat_piece("a"), "more_body": True})
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await send({"type": "http.response.body", "body": chat_piece("never seen"), "more_body": True})

    server.gate.app = stubborn
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        received = await anext(pieces)
        server.gate.door.close(0.05)
        async for piece in pieces:
            received += piece
    assert b"never seen" not in received
    assert received.endswith(DONE)
    await server.until_in_flight(0)


async def test_all_open_streams_end_together(gated):
    server = await gated()

    async def one() -> bytes:
        async with server.stream() as response:
            return await response.aread()

    streams = [asyncio.create_task(one()) for _ in range(20)]
    await server.until_in_flight(20)
    server.engine.say(*[chat_piece("a")] * 20)
    await eventually(server.engine.sayings.empty)
    server.gate.door.close(0.05)
    for received in await asyncio.gather(*streams):
        assert b'"error"' in received
    await server.until_in_flight(0)
