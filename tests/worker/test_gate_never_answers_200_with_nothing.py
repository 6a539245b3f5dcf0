"""A terminating vLLM answers 200 with an empty completion and finish_reason "abort"; the gate makes that an error."""

import json

import pytest

from tests.worker.loopback import DONE, chat_piece, chat_role, chat_usage


def completion(text: str, finish: str) -> bytes:
    return json.dumps(
        {"choices": [{"text": text, "finish_reason": finish}], "usage": {"completion_tokens": 0}}
    ).encode()


async def test_a_plain_abort_becomes_503(gated):
    server = await gated()
    server.engine.content_type = "application/json"
    server.engine.say(completion("", "abort"), None)
    response = await server.client.post("/v1/completions", json={})
    assert response.status_code == 503
    assert "retry-after" in response.headers
    assert (await server.series())['tandem:requests_total{outcome="aborted"}'] == 1


async def test_a_truncated_plain_answer_is_no_answer_either(gated):
    server = await gated()
    server.engine.content_type = "application/json"
    server.engine.say(completion("half an ans", "abort"), None)
    assert (await server.client.post("/v1/completions", json={})).status_code == 503


async def test_a_stream_aborted_before_any_content_becomes_503(gated):
    server = await gated()
    server.engine.say(chat_role(), chat_piece("", "abort"), DONE, None)
    response = await server.client.post("/v1/chat/completions", json={})
    assert response.status_code == 503


async def test_a_stream_aborted_on_its_way_gets_an_error_event(gated):
    server = await gated()
    server.engine.say(chat_piece("a"), chat_piece("", "abort"), DONE, None)
    async with server.stream() as response:
        body = await response.aread()
    assert response.status_code == 200
    assert body.startswith(chat_piece("a"))
    assert b'"error"' in body and b'"abort"' not in body
    assert body.endswith(DONE) and body.count(DONE) == 1


async def test_text_that_looks_like_an_abort_is_text(gated):
    server = await gated()
    talk = chat_piece('he wrote "finish_reason":"abort" in JSON')
    server.engine.say(talk, chat_piece("", "stop"), DONE, None)
    async with server.stream() as response:
        body = await response.aread()
    assert body == talk + chat_piece("", "stop") + DONE


@pytest.mark.parametrize("sayings", [(None,), (chat_role(), None), (chat_role(), DONE, None)])
async def test_a_stream_that_ends_without_a_word_becomes_an_error(gated, sayings):
    server = await gated()
    server.engine.say(*sayings)
    response = await server.client.post("/v1/chat/completions", json={})
    assert response.status_code == 502
    assert (await server.series())['tandem:requests_total{outcome="error"}'] == 1


async def test_a_stream_that_stops_half_way_gets_an_error_event(gated):
    server = await gated()
    server.engine.say(chat_piece("a"), None)
    async with server.stream() as response:
        body = await response.aread()
    assert b'"error"' in body and body.endswith(DONE)


async def test_an_answer_of_no_tokens_that_has_an_end_is_an_answer(gated):
    server = await gated()
    server.engine.say(chat_role(), chat_piece("", "stop"), chat_usage(1), DONE, None)
    async with server.stream() as response:
        body = await response.aread()
    assert response.status_code == 200
    assert body == chat_role() + chat_piece("", "stop") + chat_usage(1) + DONE


async def test_an_empty_plain_body_becomes_an_error(gated):
    server = await gated()
    server.engine.content_type = "application/json"
    server.engine.say(None)
    assert (await server.client.post("/v1/completions", json={})).status_code == 502


async def test_the_engines_own_error_passes_unchanged(gated):
    server = await gated()
    server.engine.status = 400
    server.engine.content_type = "application/json"
    server.engine.say(b'{"error":{"message":"no"}}', None)
    response = await server.client.post("/v1/completions", json={})
    assert (response.status_code, response.json()) == (400, {"error": {"message": "no"}})
    assert (await server.series())['tandem:requests_total{outcome="rejected"}'] == 1


@pytest.mark.parametrize("cut", [1, 3, 40, 10_000])
async def test_events_split_over_messages_are_put_together(gated, cut):
    server = await gated()
    whole = chat_role() + chat_piece("a") + chat_piece("b") + chat_piece("", "stop") + chat_usage(2) + DONE
    server.engine.say(*(whole[at : at + cut] for at in range(0, len(whole), cut)), None)
    async with server.stream() as response:
        assert await response.aread() == whole
    series = await server.series()
    assert series["tandem:ttft_seconds_count"] == 1
    assert series['tandem:requests_total{outcome="ok"}'] == 1
