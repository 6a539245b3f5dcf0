"""The simulated engine answers as vLLM does: bodies, streams, usage, errors."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest


@pytest.fixture
def worker(simulated):
    return simulated("--served-model-name", "tiny", "--max-model-len", "2048")


def events(text: str) -> list[dict]:
    lines = [line.removeprefix("data: ") for line in text.strip().split("\n\n")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_the_whole_api(worker):
    """One worker, since starting one takes longer than asking it."""
    with httpx.Client(base_url=worker.url, timeout=20) as client:
        _models_and_version(client)
        _completion(client)
        _chat(client)
        _streamed_completion(client)
        _streamed_chat_with_usage(client)
        _usage_in_every_event(client)
        _token_ids(client)
        _natural_end(client)
        for ask, status, word in MISTAKES:
            response = client.post("/v1/completions", json=ask)
            assert (response.status_code, response.json()["error"]["code"]) == (status, status), ask
            assert word in response.json()["error"]["message"], ask
        response = client.post(
            "/v1/completions", content=b'{"prompt":', headers={"content-type": "application/json"}
        )
        assert response.status_code == 400 and "JSON" in response.json()["error"]["message"]


MISTAKES = [
    ({"model": "other", "prompt": "x"}, 404, "does not exist"),
    ({"prompt": ""}, 400, "empty"),
    ({"prompt": ["a", "b"]}, 400, "batch"),
    ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens"),
    ({"prompt": "x", "max_tokens": 4000}, 400, "max_model_len"),
    ({"prompt": "x" * 40_000}, 400, "maximum context length"),
    ({"prompt": "x", "n": 2}, 400, "n"),
    ({}, 400, "prompt"),
    ({"prompt": "x", "kv_transfer_params": {"do_remote_prefill": True}}, 400, "KV connector"),
]


def _models_and_version(client):
    (card,) = client.get("/v1/models").json()["data"]
    assert (card["id"], card["max_model_len"]) == ("tiny", 2048)
    assert client.get("/version").json()["version"]


def _completion(client):
    answer = client.post(
        "/v1/completions", json={"model": "tiny", "prompt": "x" * 40, "max_tokens": 5}
    ).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["text"].split()) == 5
    assert answer["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _chat(client):
    ask = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        "max_completion_tokens": 3,
    }
    answer = client.post("/v1/chat/completions", json=ask).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["usage"]["completion_tokens"] == 3


def _streamed_completion(client):
    response = client.post("/v1/completions", json={"prompt": "x", "max_tokens": 4, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    pieces = events(response.text)
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None, None, None, "length"]
    assert len({piece["id"] for piece in pieces}) == 1


def _streamed_chat_with_usage(client):
    ask = {
        "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    role, *pieces, usage = events(client.post("/v1/chat/completions", json=ask).text)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(piece["choices"][0]["delta"]["content"] for piece in pieces)
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 3


def _usage_in_every_event(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    ask = {"prompt": "x", "max_tokens": 3, "stream": True, "stream_options": options}
    pieces = events(client.post("/v1/completions", json=ask).text)
    assert [piece["usage"]["completion_tokens"] for piece in pieces] == [1, 2, 3, 3]


def _token_ids(client):
    answer = client.post("/v1/completions", json={"prompt": list(range(33)), "max_tokens": 1}).json()
    assert answer["usage"]["prompt_tokens"] == 33


def _natural_end(client):
    """Without a limit the length is drawn, the same one for the same seed."""
    ask = {"messages": [{"role": "user", "content": "hi"}], "seed": 4}
    first, second = (client.post("/v1/chat/completions", json=ask).json() for _ in range(2))
    assert first["choices"][0]["finish_reason"] == "stop"
    assert first["usage"] == second["usage"]


def test_a_full_queue_is_refused_as_vllm_does(simulated):
    worker = simulated("--max-num-seqs", "1", "--max-num-queued-reqs", "1", "--served-model-name", "tiny")
    ask = {"prompt": "x", "max_tokens": 3000, "stream": True}
    with httpx.Client(base_url=worker.url, timeout=20) as client, ThreadPoolExecutor() as threads:
        with client.stream("POST", "/v1/completions", json=ask) as running:
            pieces = running.iter_bytes()
            next(pieces)
            waiting = threads.submit(
                httpx.post, worker.url + "/v1/completions", json={"prompt": "x", "max_tokens": 1}, timeout=60
            )
            wait_for(client, 'vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0')
            assert client.post("/v1/completions", json={"prompt": "x"}).status_code == 503
            pieces.close()  # hangs up
        assert waiting.result().status_code == 200, "the one that waited goes in when the first has gone"
        text = client.get("/metrics").text
    assert 'vllm:admission_rejections_total{model_name="tiny",reason="max_num_queued_reqs"} 1.0' in text
    assert 'vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 1.0' in text


def wait_for(client: httpx.Client, sample: str, timeout_seconds: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while sample not in client.get("/metrics").text:
        assert time.monotonic() < deadline, f"never saw {sample}"


def test_hundreds_of_streams_at_once_all_come_to_their_end(simulated):
    worker = simulated(profile="h200-llama-8b")

    async def load() -> list[int]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=worker.url, timeout=120, limits=limits) as client:

            async def one() -> int:
                response = await client.post(
                    "/v1/completions", json={"prompt": "x" * 400, "max_tokens": 20, "stream": True}
                )
                return response.text.count('"text":"')

            return await asyncio.gather(*(one() for _ in range(200)))

    assert asyncio.run(load()) == [20] * 200
