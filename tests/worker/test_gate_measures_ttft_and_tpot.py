"""TTFT is from the request to its first content, TPOT the mean time of the tokens after it."""

import asyncio
import gzip

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tandem_worker.gate.measures import BusyTime
from tandem_worker.gate.targets import TPOT_KEY, TTFT_KEY
from tests.worker.loopback import DONE, chat_piece, chat_role, chat_usage


async def test_ttft_ends_with_the_first_content_not_with_the_role(gated):
    server = await gated()

    async def talk() -> None:
        await server.engine.started.wait()
        server.engine.say(chat_role())
        await asyncio.sleep(0.2)
        server.engine.say(chat_piece("a"))
        await asyncio.sleep(0.3)
        server.engine.say(chat_piece("b"), chat_piece("c", "stop"), DONE, None)

    talking = asyncio.create_task(talk())
    async with server.stream() as response:
        await response.aread()
    await talking
    series = await server.series()
    assert series["tandem:ttft_seconds_count"] == 1
    assert 0.2 <= series["tandem:ttft_seconds_sum"] < 0.5
    # Two tokens after the first in the 0.3 s (and what the machine adds).
    assert 0.15 <= series["tandem:tpot_seconds_sum"] < 0.3


async def test_tokens_are_counted_by_usage_where_the_engine_tells(gated):
    server = await gated()

    async def talk() -> None:
        await server.engine.started.wait()
        server.engine.say(chat_piece("several tokens at once "))
        await asyncio.sleep(0.2)
        server.engine.say(chat_piece("and more", "stop"), chat_usage(11), DONE, None)

    talking = asyncio.create_task(talk())
    async with server.stream() as response:
        await response.aread()
    await talking
    series = await server.series()
    assert 0.02 <= series["tandem:tpot_seconds_sum"] < 0.05  # 0.2 s over 10 tokens, not over 1
    assert series['tandem:tpot_observations_total{counted_by="usage"}'] == 1
    assert series['tandem:tpot_observations_total{counted_by="events"}'] == 0


async def test_one_token_has_a_ttft_and_no_tpot(gated):
    server = await gated()
    server.engine.say(chat_piece("a", "length"), chat_usage(1), DONE, None)
    async with server.stream() as response:
        await response.aread()
    series = await server.series()
    assert series["tandem:ttft_seconds_count"] == 1
    assert series["tandem:tpot_seconds_count"] == 0


@pytest.mark.parametrize(("tokens", "observed"), [(1, 1), (7, 0)])
async def test_a_plain_answer_of_one_token_is_a_first_token(gated, tokens, observed):
    """The prefill leg of a disaggregated request; of a longer plain answer the first token cannot be seen."""
    server = await gated()
    server.engine.content_type = "application/json"
    server.engine.say(
        b'{"choices":[{"text":"a","finish_reason":"length"}],"usage":{"completion_tokens":%d}}' % tokens, None
    )
    assert (await server.client.post("/v1/completions", json={})).status_code == 200
    assert (await server.series())["tandem:ttft_seconds_count"] == observed


async def test_what_was_cut_or_failed_is_no_tpot_observation(gated):
    server = await gated()
    server.engine.say(chat_piece("a"), chat_piece("b"), chat_piece("", "abort"), None)
    async with server.stream() as response:
        await response.aread()
    assert (await server.series())["tandem:tpot_seconds_count"] == 0


async def test_a_client_that_hangs_up_is_counted_as_gone(gated):
    server = await gated()
    server.engine.say(chat_piece("a"))
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        await anext(pieces)
        assert (await server.series())["tandem:requests_in_flight"] == 1
    await asyncio.wait_for(server.engine.gone.wait(), 5)
    await server.until_in_flight(0)
    series = await server.series()
    assert series['tandem:requests_total{outcome="client_gone"}'] == 1
    assert series["tandem:requests_in_flight"] == 0


async def test_a_crash_of_the_app_is_an_error(gated):
    server = await gated()

    async def broken(scope, receive, send):
        raise RuntimeError("out of order")

    whole, server.gate.app = server.gate.app, broken
    assert (await server.client.post("/v1/completions", json={})).status_code == 500
    server.gate.app = whole
    assert (await server.series())['tandem:requests_total{outcome="error"}'] == 1


async def test_one_scrape_gets_the_engines_series_and_the_gates(gated):
    server = await gated()
    response = await server.client.get("/metrics")
    assert int(response.headers["content-length"]) == len(response.content)
    names = {family.name for family in text_string_to_metric_families(response.text)}
    assert names >= {
        "vllm:num_requests_running",
        "tandem:ttft_seconds",
        "tandem:tpot_seconds",
        "tandem:requests",
    }


async def test_a_scraper_that_would_take_openmetrics_or_gzip_gets_plain_text(gated):
    server = await gated()
    headers = {"accept": "application/openmetrics-text", "accept-encoding": "gzip"}
    async with server.client.stream("GET", "/metrics", headers=headers) as response:
        raw = b"".join([piece async for piece in response.aiter_raw()])
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(raw)
    assert b"tandem:gate_open 1.0" in raw and b"# EOF" not in raw


async def test_the_targets_are_edges_and_new_ones_replace_them(podinfo, gated):
    podinfo.write_text(f'{TTFT_KEY}="0.777"\n{TPOT_KEY}="0.0123"\n')
    server = await gated()
    server.engine.say(chat_piece("a", "stop"), DONE, None)
    async with server.stream() as response:
        await response.aread()
    series = await server.series()
    assert series['tandem:ttft_seconds_bucket{le="0.777"}'] == 1
    assert series['tandem:tpot_seconds_bucket{le="0.0123"}'] == 0
    assert series['tandem:slo_target_seconds{signal="ttft"}'] == 0.777
    # As the kubelet does it: a new file takes the name of the old one.
    renewed = podinfo.with_name("renewed")
    renewed.write_text(f'{TTFT_KEY}="0.888"\n{TPOT_KEY}="0.0123"\n')
    renewed.replace(podinfo)
    series = await server.series()
    assert 'tandem:ttft_seconds_bucket{le="0.777"}' not in series
    assert series['tandem:ttft_seconds_bucket{le="0.888"}'] == 0, "counts start again: a counter reset"
    assert series['tandem:requests_total{outcome="ok"}'] == 1, "what has no edges goes on"


async def test_without_targets_there_is_no_target_series(gated):
    series = await (await gated()).series()
    assert not [name for name in series if name.startswith("tandem:slo_target_seconds")]


async def test_the_client_of_a_slow_answer_is_not_kept_from_its_keepalive_comment(gated):
    server = await gated()
    server.engine.say(b": ping\n\n")
    async with server.stream() as response:
        pieces = response.aiter_bytes()
        assert await asyncio.wait_for(anext(pieces), 5) == b": ping\n\n"
        server.engine.say(chat_piece("a", "stop"), DONE, None)
        assert b"".join([piece async for piece in pieces]) == chat_piece("a", "stop") + DONE


async def test_busy_time_ends_with_the_first_token_and_is_not_counted_twice_for_two_prompts(gated):
    server = await gated()

    async def talk() -> None:
        await server.engine.started.wait()
        await asyncio.sleep(0.3)
        server.engine.say(chat_piece("a"))
        await asyncio.sleep(0.4)
        server.engine.say(chat_piece("b", "stop"), DONE, None)

    talking = asyncio.create_task(talk())
    async with server.stream() as response:
        await response.aread()
    await talking
    # Until the first token, not for the 0.4 s of decoding after it.
    assert 0.3 <= (await server.series())["tandem:prefill_busy_seconds_total"] < 0.6


def test_busy_time_is_that_of_at_least_one() -> None:
    busy = BusyTime()
    busy.begin(10.0)
    busy.begin(11.0)
    busy.end(12.0)
    assert busy.seconds(13.0) == 3.0
    busy.end(14.0)
    busy.begin(20.0)
    assert busy.seconds(21.0) == 5.0
