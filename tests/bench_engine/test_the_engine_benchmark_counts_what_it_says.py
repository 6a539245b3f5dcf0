"""The parts of `make bench-engine` that need no engine: traffic, what the load generator says, rows, effects."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.bench_engine import cases
from e2e.bench_engine.load import measured
from e2e.bench_engine.rows import Row, disturbed, effect, merge, percentile, plain, row, table
from e2e.bench_engine.traffic import (
    CHUNK,
    SHORT_TOKENS,
    agents,
    at_once,
    short_among_long,
    trace,
)

# Three short requests and a long one, as `vllm bench serve --save-detailed` writes them; the third one failed.
RESULT: dict[str, Any] = {
    "duration": 10.0,
    "input_lens": [64, 64, 64, 3520],
    "output_lens": [3, 3, 0, 11],
    "ttfts": [0.1, 0.3, 0.0, 4.0],
    "itls": [[0.2, 0.2], [0.6], [], [0.5] * 10],
    "errors": ["", "", "HTTP 500", ""],
}


def test_a_seed_gives_the_same_requests_again_and_another_one_others() -> None:
    one, again, other = (
        short_among_long(2.0, long_tokens=1024, long_prompts=5, seed=seed) for seed in (1, 1, 2)
    )
    assert one == again and one != other


def test_the_long_prompts_keep_the_engine_busy_by_the_same_share_on_any_machine() -> None:
    for seconds in (0.5, 4.0):
        asks = short_among_long(seconds, long_tokens=1024, long_prompts=8, seed=1)
        long = [ask for ask in asks if ask.prompt_tokens == 1024]
        assert len(long) == 8
        assert (long[1].at_seconds - long[0].at_seconds) / seconds == pytest.approx(2.3)
        short = len(asks) - len(long)
        assert 3 * len(long) < short < 8 * len(long)


def test_no_two_prompts_share_a_beginning_unless_that_is_what_is_measured() -> None:
    asks = short_among_long(1.0, long_tokens=1024, long_prompts=4, seed=1)
    ids = [chunk for ask in asks for chunk in ask.chunks]
    assert len(ids) == len(set(ids))
    talks = agents(1.0, turns=3, sessions=2, seed=1)
    assert talks[2].chunks[: len(talks[0].chunks)] == talks[0].chunks
    assert talks[2].chunks[:16] == talks[1].chunks[:16] and talks[2].chunks[16:] != talks[1].chunks[16:]


def test_the_trace_is_what_the_generator_reads() -> None:
    lines = [
        json.loads(line)
        for line in trace(at_once(2, prompt_tokens=SHORT_TOKENS, output_tokens=7, seed=1)).splitlines()
    ]
    assert [line["timestamp"] for line in lines] == [0.0, 0.0]
    for line in lines:
        assert line["input_length"] == CHUNK * len(line["hash_ids"]) == SHORT_TOKENS
        assert line["output_length"] == 7


def test_time_per_token_is_of_tokens_and_not_of_events() -> None:
    answers = measured(RESULT).answers
    assert answers[0].tpot_seconds == pytest.approx(0.2)
    assert answers[1].tpot_seconds == pytest.approx(0.3)  # two tokens came in one event
    assert answers[2].ttft_seconds is None and answers[2].failure == "HTTP 500"


def test_a_row_tells_of_the_short_ones_and_of_every_failure() -> None:
    made = row("c", measured(RESULT), counted="short", most_tokens=64, chunk_tokens=512, threshold=256)
    assert (made.requests, made.failed, made.chunk_tokens, made.long_prompt_threshold) == (3, 1, 512, 256)
    assert made.ttft_p50_seconds == pytest.approx(0.2) and made.ttft_p95_seconds == pytest.approx(0.29)
    assert made.long_ttft_p50_seconds == 4.0
    assert made.output_tokens_per_second == pytest.approx(1.7)
    assert {"case", "chunk_tokens", "requests", "ttft_p50_seconds", "ttft_p95_seconds", "tpot_p50_seconds",
            "tpot_p95_seconds", "output_tokens_per_second"} <= set(plain(made))  # fmt: skip


def test_what_nobody_measured_is_not_zero() -> None:
    none = row("c", measured({**RESULT, "errors": ["x"] * 4}))
    assert none.ttft_p95_seconds is None and none.failed == 4 and "| - |" in table([none])
    assert percentile([], 0.5) is None


def test_the_effect_is_told_of_both_promises() -> None:
    def of(case: str, ttft: float) -> Row:
        return Row(case, None, None, "all", 1, 0, ttft, ttft, 0.1, 0.1, 10.0)

    told = effect([of("off", 4.0), of("on", 1.0)], "off", "on")
    assert told == "on, against off: TTFT p95 -75 %, TPOT p95 +0 %, tokens/s +0 %"
    assert effect([of("off", 4.0)], "off", "on") is None


def test_the_file_keeps_the_cases_that_were_not_run_now(tmp_path: Path) -> None:
    file = tmp_path / "bench" / "engine.json"
    merge(file, [{"case": "a", "requests": 1}, {"case": "b", "requests": 1}])
    merge(file, [{"case": "b", "requests": 2}])
    assert {one["case"]: one["requests"] for one in json.loads(file.read_text())} == {"a": 1, "b": 2}


@pytest.mark.parametrize("quick", [True, False])
def test_every_case_has_a_name_of_its_own_and_only_the_prefix_cache_is_compared_with_one(quick: bool) -> None:
    groups = cases.groups(quick=quick, fp8_kv=True)
    all_cases = [case for group in groups.values() for case in group.cases]
    assert len({case.name for case in all_cases}) == len(all_cases)
    cached = [case for case in all_cases if "--no-enable-prefix-caching" not in case.flags]
    assert [case.name for case in cached] == ["prefix caching on"]


def test_cases_that_were_measured_beside_other_work_are_said_not_to_compare() -> None:
    def of(alone: float | None) -> Row:
        return Row("c", None, None, "all", 1, 0, 1.0, 1.0, 0.1, 0.1, 10.0, alone_seconds=alone)

    assert disturbed([of(4.0), of(5.0), of(None)]) is None
    told = disturbed([of(4.0), of(9.0)])
    assert told is not None and "4.0 to 9.0 s" in told and "not quiet" in told
