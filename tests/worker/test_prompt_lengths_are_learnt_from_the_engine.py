"""The gate does not tokenise: it reads lengths from bodies and learns bytes per token from what the engine counts."""

import json

import pytest

from tandem_worker.gate.prompt import read_prompt
from tandem_worker.gate.prompt_lengths import LEAST_TOKENS_BETWEEN_SCRAPES, PromptLengths
from tests.worker.loopback import DONE, chat_piece, chat_usage


def prompt(**body):
    return read_prompt(json.dumps(body).encode())


def tokens(**body) -> float | None:
    return PromptLengths().tokens_of(prompt(**body))


def exported(total: float) -> bytes:
    return b'# TYPE x counter\nvllm:prompt_tokens_total{engine="0",model_name="m"} %f\nother 1\n' % total


@pytest.mark.parametrize(
    ("body", "length"),
    [
        ({"prompt": "word" * 100}, 100),
        ({"prompt": ["word" * 100, "word" * 20]}, 120),
        ({"prompt": [7] * 100}, 100),
        ({"prompt": [[7] * 100, [7] * 20]}, 120),
        ({"prompt": "é" * 100}, 50),
        ({"messages": [{"role": "user", "content": "word" * 100}]}, 104),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "word" * 100}]}]}, 104),
        ({"messages": [{"role": "assistant", "content": None}, {"role": "user", "content": "word"}]}, 9),
        ({"input": "word" * 100, "instructions": "word" * 10}, 110),
        ({"system": "word" * 10, "messages": [{"role": "user", "content": "word" * 100}]}, 114),
        ({"prompt": "\ud800" * 4}, 3),
    ],
)
def test_the_length_is_read_from_each_apis_body(body, length):
    assert tokens(**body) == length


def test_tools_are_part_of_the_prompt():
    messages = [{"role": "user", "content": "word"}]
    tool = {"type": "function", "function": {"name": "f", "description": "word" * 200}}
    assert tokens(messages=messages, tools=[tool]) > 200 > tokens(messages=messages)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"prompt": 3}', b'{"model": "m"}', b"\xff\xfe", b"[" * 100_000],
)
def test_what_cannot_be_read_is_unknown_not_zero(body):
    assert read_prompt(body) is None
    assert PromptLengths().tokens_of(None) is None


def test_an_image_makes_the_length_unknown():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10000}}
    content = [picture, {"type": "text", "text": "word"}]
    assert tokens(messages=[{"role": "user", "content": content}]) is None


@pytest.mark.parametrize(
    ("body", "streams", "one_token", "kv_elsewhere"),
    [
        ({"stream": True}, True, False, False),
        ({"max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}, False, True, False),
        ({"stream": True, "kv_transfer_params": {"do_remote_prefill": True}}, True, False, True),
    ],
)
def test_the_legs_of_a_disaggregated_request_are_told_apart(body, streams, one_token, kv_elsewhere):
    read = prompt(prompt="word", **body)
    assert (read.streams, read.one_token, read.kv_elsewhere) == (streams, one_token, kv_elsewhere)


def test_usage_corrects_the_ratio():
    lengths = PromptLengths()
    for _ in range(300):
        lengths.counted(prompt(prompt="x" * 3000), 1000)
    assert lengths.tokens_of(prompt(prompt="x" * 6000)) == pytest.approx(2000, rel=0.02)


def test_token_ids_are_exact_whatever_was_learnt():
    lengths = PromptLengths()
    lengths.counted(prompt(prompt="x" * 30000), 30000)
    assert lengths.tokens_of(prompt(prompt=[1] * 77)) == 77


def test_the_engines_counter_corrects_the_ratio_where_no_answer_carries_usage():
    lengths = PromptLengths()
    total = 12345.0
    lengths.scraped(exported(total))
    for _ in range(10):
        for _ in range(20):
            lengths.computed(prompt(prompt="x" * 3000))
            total += 1000
        lengths.scraped(exported(total))
    assert lengths.tokens_of(prompt(prompt="x" * 6000)) == pytest.approx(2000, rel=0.02)


def test_what_the_counter_cannot_tell_teaches_nothing():
    lengths = PromptLengths()
    before = lengths.tokens_per_byte
    lengths.scraped(b"# nothing of vLLM\n")
    lengths.scraped(exported(50_000))
    lengths.computed(prompt(prompt="x" * 30_000))
    lengths.scraped(exported(0))  # the engine started again
    lengths.computed(None)  # its length is not known, but the engine counts it
    lengths.computed(prompt(prompt="x" * 30_000))
    lengths.scraped(exported(100_000))
    assert lengths.tokens_per_byte == before


def test_few_tokens_between_scrapes_are_added_up_until_they_tell():
    lengths = PromptLengths()
    total = 0.0
    lengths.scraped(exported(total))
    for _ in range(200):
        lengths.computed(prompt(prompt="x" * 300))
        total += LEAST_TOKENS_BETWEEN_SCRAPES / 10
        lengths.scraped(exported(total))
    assert lengths.tokens_per_byte == pytest.approx(1 / 3, rel=0.02)


# --- the histogram ----------------------------------------------------------------------------------------
async def observed(server) -> tuple[float, float]:
    series = await server.series()
    return series["tandem:prompt_tokens_count"], series["tandem:prompt_tokens_sum"]


async def test_a_prompt_is_observed_once_with_its_first_token(gated):
    server = await gated()
    server.engine.say(chat_piece("a"))
    async with server.client.stream("POST", "/v1/completions", json={"prompt": "word" * 100}) as response:
        await anext(response.aiter_bytes())
        assert await observed(server) == (1, 100)
        server.engine.say(chat_piece("b", "stop"), chat_usage(2), DONE, None)
    await server.until_in_flight(0)
    assert (await observed(server))[0] == 1


async def test_usage_is_believed_where_it_comes_with_the_first_token(gated):
    server = await gated()
    server.engine.content_type = "application/json"
    server.engine.say(
        b'{"choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":90,"completion_tokens":1}}',
        None,
    )
    await server.client.post("/v1/completions", json={"prompt": "word" * 100, "max_tokens": 1})
    assert await observed(server) == (1, 90)


async def test_an_unknown_length_is_observed_when_usage_tells_it_at_the_end(gated):
    server = await gated()
    server.engine.say(chat_piece("a", "stop"), chat_usage(1), DONE, None)
    await server.client.post("/v1/chat/completions", json={"messages": "none"[:0]})
    assert await observed(server) == (1, 4)


async def test_a_prompt_computed_elsewhere_is_counted_there(gated):
    server = await gated()
    server.engine.say(chat_piece("a", "stop"), chat_usage(1), DONE, None)
    body = {"prompt": "word" * 100, "kv_transfer_params": {"do_remote_prefill": True}}
    await server.client.post("/v1/completions", json=body)
    assert await observed(server) == (0, 0)


async def test_what_fails_before_its_first_token_is_not_observed(gated):
    server = await gated()
    server.engine.status = 400
    server.engine.content_type = "application/json"
    server.engine.say(b"{}", None)
    await server.client.post("/v1/completions", json={"prompt": "word" * 100})
    assert await observed(server) == (0, 0)


async def test_the_edges_are_two_per_octave_from_32_to_131072(gated):
    series = await (await gated()).series()
    edges = [float(name.split('"')[1]) for name in series if name.startswith("tandem:prompt_tokens_bucket")]
    assert edges == pytest.approx([2 ** (k / 2) for k in range(10, 35)] + [float("inf")])


async def test_only_a_gate_that_holds_requests_says_how_many(gated, monkeypatch):
    assert not [name for name in await (await gated()).series() if "held" in name or "demotions" in name]
    monkeypatch.setenv("TANDEM_LATE_DEMOTION", "1")
    series = await (await gated()).series()
    assert series['tandem:held_requests{queue="main"}'] == series['tandem:held_requests{queue="low"}'] == 0
    assert series["tandem:demotions_total"] == 0
