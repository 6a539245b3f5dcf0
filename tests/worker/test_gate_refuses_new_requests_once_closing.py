"""Once closing, the gate refuses what comes and lets what is inside go on."""

import asyncio

import pytest

from tests.worker.loopback import DONE, chat_piece


async def test_an_open_gate_passes_everything(gated):
    server = await gated()
    server.engine.say(chat_piece("a"), chat_piece("b", "stop"), DONE, None)
    async with server.stream() as response:
        body = await response.aread()
    assert response.status_code == 200
    assert body == chat_piece("a") + chat_piece("b", "stop") + DONE
    assert (await server.client.get("/health")).status_code == 200


async def test_a_closing_gate_refuses_new_requests_with_retry_after_and_an_openai_error(gated):
    server = await gated()
    server.gate.door.close(30)
    response = await server.client.post("/v1/chat/completions", json={})
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    error = response.json()["error"]
    assert error["code"] == 503
    assert set(error) == {"message", "type", "param", "code"}
    assert not server.engine.started.is_set()


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/embeddings", "/v1/responses", "/tokenize", "/invocations"]
)
async def test_work_of_every_kind_is_refused(gated, path):
    server = await gated()
    server.gate.door.close(30)
    assert (await server.client.post(path, json={})).status_code == 503


@pytest.mark.parametrize("path", ["/health", "/ping"])
async def test_health_turns_503_so_that_probes_and_routers_see_it(gated, path):
    server = await gated()
    assert (await server.client.get(path)).status_code == 200
    server.gate.door.close(30)
    assert (await server.client.get(path)).status_code == 503


@pytest.mark.parametrize("path", ["/metrics", "/version"])
async def test_what_does_no_work_stays_readable(gated, path):
    server = await gated()
    server.gate.door.close(30)
    assert (await server.client.get(path)).status_code == 200


async def test_an_open_stream_goes_on_to_its_own_end(gated):
    server = await gated()
    server.engine.say(chat_piece("a"))
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        received = await anext(pieces)
        server.gate.door.close(30)
        assert (await server.client.post("/v1/completions", json={})).status_code == 503
        server.engine.say(chat_piece("b", "stop"), DONE, None)
        async for piece in pieces:
            received += piece
    assert received == chat_piece("a") + chat_piece("b", "stop") + DONE
    await server.until_in_flight(0)
    assert server.gate.door.state == "closed"


async def test_state_is_closing_while_something_is_inside(gated):
    server = await gated()
    server.engine.say(chat_piece("a"))
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        await anext(pieces)
        assert server.gate.door.state == "open"
        server.gate.door.close(30)
        assert server.gate.door.state == "closing"


async def test_an_earlier_deadline_is_not_put_off_by_a_later_call(gated):
    server = await gated()
    server.gate.door.close(5)
    server.gate.door.close(500)
    assert server.gate.door.remaining_seconds() <= 5
    server.gate.door.close(1)
    assert server.gate.door.remaining_seconds() <= 1


async def test_refusals_are_counted_apart(gated):
    server = await gated()
    server.engine.say(chat_piece("a", "stop"), DONE, None)
    async with server.stream() as response:
        await response.aread()
    server.gate.door.close(30)
    await asyncio.gather(*(server.client.post("/v1/completions", json={}) for _ in range(3)))
    series = await server.series()
    assert series['tandem:requests_total{outcome="ok"}'] == 1
    assert series['tandem:requests_total{outcome="rejected"}'] == 3
    assert series["tandem:gate_open"] == 0


async def test_a_stream_that_is_no_answer_is_passed_on_event_by_event(gated):
    """What counts as content is known of completions and chats only; nothing else is held back."""
    server = await gated()
    server.engine.say(b'data: {"progress":1}\n\n')
    async with server.stream("/v1/other") as response:
        pieces = response.aiter_bytes()
        assert await asyncio.wait_for(anext(pieces), 5) == b'data: {"progress":1}\n\n'
        server.engine.say(None)
        assert [piece async for piece in pieces] == []


async def test_a_volume_open_to_all_still_gives_a_private_folder(gated, gate_directory):
    gate_directory.parent.chmod(0o777)
    server = await gated()
    await server.client.get("/health")
    assert len(list(gate_directory.glob("*.sock"))) == 1
