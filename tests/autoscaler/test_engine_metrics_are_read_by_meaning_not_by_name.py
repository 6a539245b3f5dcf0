"""Field cases A8-A10, H6, H7: aliases, several engines in one pod, and text that is none."""

import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tandem_autoscaler.signals import metric_names
from tandem_autoscaler.signals.exposition import NotExposition, parse
from tandem_autoscaler.signals.source import PodReading
from tests.autoscaler.exported import Exported

REAL = (Path(__file__).parents[1] / "worker" / "vllm-0.32-metrics.txt").read_text()

OLD = """vllm:gpu_cache_usage_perc{model_name="m"} 0.62
vllm:time_per_output_token_seconds_bucket{le="+Inf"} 400
vllm:time_per_output_token_seconds_sum 12.0
vllm:time_per_output_token_seconds_count 400
"""
NEW = """vllm:kv_cache_usage_perc{model_name="m"} 0.62
vllm:request_time_per_output_token_seconds_bucket{le="+Inf"} 400
vllm:request_time_per_output_token_seconds_sum 12.0
vllm:request_time_per_output_token_seconds_count 400
"""


def read(text: str) -> PodReading:
    return parse(text, uid="pod", read_at_seconds=1.0)


@pytest.mark.parametrize(
    "text", [OLD, NEW, OLD + NEW, NEW + OLD], ids=["old", "new", "both", "both, other order"]
)
def test_old_and_new_names_mean_the_same_and_are_never_added_up(text: str) -> None:
    reading = read(text)
    assert reading.gauges["kv_usage"] == pytest.approx(0.62)
    assert reading.histograms["tpot"].mean == pytest.approx(0.030)
    assert reading.histograms["tpot"].count == 400


def test_neither_name_is_unknown_and_not_zero() -> None:
    reading = read("vllm:num_requests_running 3\n")
    assert "kv_usage" not in reading.gauges
    assert "tpot" not in reading.histograms


def test_the_target_per_token_is_not_measured_per_event() -> None:
    """H7 row 5: with speculative decoding an event carries several tokens."""
    reading = read(
        'vllm:inter_token_latency_seconds_bucket{le="+Inf"} 100\nvllm:inter_token_latency_seconds_sum 8\n'
        'vllm:request_time_per_output_token_seconds_bucket{le="+Inf"} 10\n'
        "vllm:request_time_per_output_token_seconds_sum 0.27\n"
    )
    assert reading.histograms["tpot"].mean == pytest.approx(0.027)


def test_engines_of_one_pod_are_added_up() -> None:
    """H6 rows 1 and 2; the cache ratio is averaged."""
    reading = read(
        'vllm:num_requests_waiting{engine="0"} 7\nvllm:num_requests_waiting{engine="1"} 5\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.9\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 10\n'
        'vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf"} 10\n'
        'vllm:time_to_first_token_seconds_sum{engine="0"} 2\nvllm:time_to_first_token_seconds_sum{engine="1"} 8\n'
    )
    assert reading.gauges["waiting"] == 12
    assert reading.gauges["kv_usage"] == pytest.approx(0.7)
    assert reading.histograms["ttft"].mean == pytest.approx(0.5)


def test_tokens_in_the_cache_are_its_share_of_the_caches_that_there_are() -> None:
    """Two engines of 1,000 blocks of 16 tokens, 90 and 50 % full."""
    usage = 'vllm:kv_cache_usage_perc{engine="0"} 0.9\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
    info = 'vllm:cache_config_info{block_size="16",engine="%d",num_gpu_blocks="%s"} 1.0\n'
    reading = read(usage + info % (0, "1000") + info % (1, "1000"))
    assert reading.gauges["kv_tokens"] == pytest.approx(0.7 * 32_000)
    # An engine that has not measured its memory yet writes None: unknown, not zero.
    for unknown in ("None", "", "inf"):
        assert "kv_tokens" not in read(usage + info % (0, unknown)).gauges
    assert "kv_tokens" not in read(info % (0, "1000")).gauges
    assert read("sglang:num_used_tokens 5120\n").gauges["kv_tokens"] == 5120


def test_only_locally_computed_prompt_tokens_are_prefill_work() -> None:
    reading = read(
        'vllm:prompt_tokens_by_source_total{source="local_compute"} 100\n'
        'vllm:prompt_tokens_by_source_total{source="local_cache_hit"} 900\n'
        'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"} 7\n'
    )
    assert reading.counters["prompt_tokens_computed_total"] == 100
    assert reading.counters["prompt_tokens_received_total"] == 7


def test_a_request_that_waits_for_its_kv_does_not_wait_for_room() -> None:
    reading = read(
        "vllm:num_requests_waiting 9\n"
        'vllm:num_requests_waiting_by_reason{reason="capacity"} 0\n'
        'vllm:num_requests_waiting_by_reason{reason="deferred"} 9\n'
    )
    assert reading.gauges["waiting_for_room"] == 0


def test_nan_is_no_value() -> None:
    assert "kv_usage" not in read("vllm:kv_cache_usage_perc NaN\n").gauges


@pytest.mark.parametrize(
    "series", ["vllm:num_requests_running", 'vllm:num_requests_running{model_name="a } b"}']
)
@pytest.mark.parametrize("value", [" 5", "  5", "\t5", " 5 ", " 5 1700000000", " 5\t1700000000"])
def test_white_space_and_timestamps_do_not_matter(series: str, value: str) -> None:
    for _ in range(2):  # known by its beginning the second time
        assert read(f"\n  \n# a comment\n#\n{series}{value}\nother 1\n").gauges["running"] == 5


def test_a_real_vllm_text_is_read_as_prometheus_own_parser_reads_it() -> None:
    reading = read(REAL)
    theirs: dict[str, float] = {}
    for family in text_string_to_metric_families(REAL):
        for sample in family.samples:
            theirs[sample.name] = theirs.get(sample.name, 0.0) + sample.value
    for signal, aliases in metric_names.HISTOGRAMS.items():
        name = next((n for n in aliases if f"{n}_count" in theirs), None)
        if name is not None:
            assert reading.histograms[signal].count == theirs[f"{name}_count"], signal
            assert reading.histograms[signal].total == pytest.approx(theirs[f"{name}_sum"]), signal
            assert reading.histograms[signal].edges[-1] == math.inf
    for signal, aliases in metric_names.COUNTERS.items():
        name = next((n for n in aliases if n in theirs), None)
        if name is not None:
            assert reading.counters[signal] == theirs[name], signal
    # What vLLM 0.32 must give us for the decision.
    assert {
        "ttft",
        "tpot",
        "inter_token",
        "prompt_tokens",
        "output_tokens",
        "step_tokens",
    } <= reading.histograms.keys()
    assert {
        "finished_total",
        "output_tokens_total",
        "prompt_tokens_computed_total",
    } <= reading.counters.keys()
    assert {"running", "waiting", "waiting_for_room", "kv_usage", "kv_tokens"} <= reading.gauges.keys()


def test_the_tests_own_engine_exports_what_is_read() -> None:
    exported = Exported()
    exported.prefill(3, tokens=700, seconds=0.4)
    reading = read(exported.text())
    assert reading.histograms["ttft"].count == 3
    assert reading.counters["prompt_tokens_computed_total"] == 2100


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE html><html><body>Bad gateway</body></html>",
        "vllm:num_requests_running many\n",
        "vllm:num_requests_running\n",
        'vllm:num_requests_running{engine="0" 3\n',
        "\x00\x01\x02",
        '{"error": "not found"}',
    ],
)
def test_garbage_is_told_from_an_engine_without_our_metrics(text: str) -> None:
    with pytest.raises(NotExposition):
        read(text)


def test_an_engine_without_our_metrics_is_an_empty_reading() -> None:
    assert read("python_gc_objects_collected_total 5\n").empty
