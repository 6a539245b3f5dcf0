"""engine.type sglang: SGLang's names (0.5.23) and its router's (sglang-router 0.3.2) mean what vLLM's do, and the
user's first token is the decode worker's, which has the request from its arrival on."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.signals import metric_names
from tandem_autoscaler.signals.exposition import parse
from tandem_autoscaler.signals.prometheus import QUERIES, SCRAPED_AT
from tandem_autoscaler.signals.source import PodReading
from tandem_worker.simulate.metrics import LOCAL_COMPUTE
from tandem_worker.simulate.sglang_metrics import SGLangMetrics
from tests.autoscaler.exported import TTFT
from tests.autoscaler.scene import D, Scene
from tests.autoscaler.test_manifests_become_services import pool, service


def exported(phase: str | None) -> PodReading:
    """What a simulated engine exports after ten requests of 500 tokens."""
    metrics = SGLangMetrics("m", 4096, {"kv_cache_size_tokens": "65536"}, phase)
    metrics.gauges.running, metrics.gauges.waiting, metrics.gauges.kv_usage = 3, 5, 0.25
    for _ in range(10):
        metrics.observe("time_to_first_token_seconds", 0.3)
        metrics.observe("request_time_per_output_token_seconds", 0.02)
        metrics.observe("inter_token_latency_seconds", 0.02)
        metrics.observe("request_queue_time_seconds", 0.05)
        metrics.observe("request_prompt_tokens", 500)
        metrics.observe("request_generation_tokens", 40)
        metrics.prompt_tokens[LOCAL_COMPUTE] += 500
        metrics.generation_tokens += 40
        metrics.finished["stop"] += 1
    registry = CollectorRegistry()
    registry.register(metrics)
    return parse(generate_latest(registry).decode(), uid="pod", read_at_seconds=1.0)


def test_every_signal_that_sglang_has_is_read() -> None:
    reading = exported(None)
    assert reading.gauges["running"] == 3
    assert reading.gauges["waiting"] == 5
    assert reading.gauges["kv_usage"] == 0.25
    assert reading.counters["finished_total"] == 10
    assert reading.counters["prompt_tokens_total"] == 5000
    assert reading.counters["prompt_tokens_computed_total"] == 5000
    assert reading.counters["output_tokens_total"] == 400
    for name, mean in {"ttft": 0.3, "tpot": 0.02, "inter_token": 0.02, "queue": 0.05}.items():
        assert reading.histograms[name].count == 10
        assert reading.histograms[name].mean == pytest.approx(mean)
    assert reading.histograms["prompt_tokens"].mean == 500
    assert reading.histograms["output_tokens"].mean == 40


def test_a_prefill_worker_tells_no_first_token_and_that_is_unknown_not_zero() -> None:
    reading = exported("prefill")
    assert not {"ttft", "tpot", "inter_token"} & set(reading.histograms)
    assert reading.histograms["queue"].count == 10


def test_what_is_absent_is_absent() -> None:
    """SGLang has no time of prefill alone, and does not tell tokens that came by transfer."""
    reading = exported("decode")
    assert "prefill" not in reading.histograms
    assert "prompt_tokens_received_total" not in reading.counters
    assert "waiting_for_room" not in reading.gauges


def test_its_routers_counts_mean_the_same() -> None:
    reading = parse(
        'smg_router_requests_total{router_type="http",endpoint="chat",streaming="true"} 7\n'
        'smg_router_requests_total{router_type="http",endpoint="completions",streaming="false"} 3\n'
        'smg_http_responses_total{status_code="503",error_code="server_selection_failed"} 4\n'
        'smg_http_responses_total{status_code="200",error_code=""} 10\n',
        uid="router", read_at_seconds=1.0,
    )  # fmt: skip
    assert reading.counters["router_requests_total"] == 10
    assert reading.counters["router_unserved_total"] == 4


def test_a_prometheus_is_asked_for_them_too() -> None:
    assert "sglang:num_running_reqs" in QUERIES["plain"]
    assert "sglang:time_to_first_token_seconds_bucket" in QUERIES["bucket"]
    assert "smg_http_responses_total" in QUERIES["labelled"]
    assert "error_code" in QUERIES["labelled"]
    assert "timestamp(sglang:num_running_reqs)" in SCRAPED_AT


@pytest.mark.parametrize("table", [metric_names.HISTOGRAMS, metric_names.COUNTERS, metric_names.GAUGES])
def test_no_name_means_two_things(table: dict[str, tuple[str, ...]]) -> None:
    said = [name for aliases in table.values() for name in aliases]
    assert len(said) == len(set(said))


def test_the_users_first_token_is_not_counted_twice() -> None:
    """Both legs begin at once: under vLLM the two workers' times add up, here decode's holds prefill's."""
    tails = {}
    for at_decode in (False, True):
        scene = Scene(first_token_at_decode=at_decode)
        for _ in range(20):
            scene.prompts(2.0, seconds=0.4)
            scene.answers(2.0)
            for decode in scene.of(D):
                decode.observe(TTFT, 0.45, 1000)
            scene.tick(apply=False)
        kept = scene.outcome.ttft
        assert kept is not None
        assert kept.tail_seconds is not None
        tails[at_decode] = kept.tail_seconds
    assert tails[True] <= 0.5 < tails[False]


@pytest.mark.parametrize(
    ("engine", "mode", "said"),
    [("sglang", "Disaggregated", True), ("sglang", "Colocated", False), ("vllm", "Disaggregated", False)],
)
def test_whether_it_is_so_stands_in_the_manifest(engine: str, mode: str, said: bool) -> None:
    manifest = service(engine={"type": engine})
    if mode == "Colocated":
        kept = {key: value for key, value in manifest["spec"].items() if key not in ("prefill", "decode")}
        manifest = {**manifest, "spec": {**kept, "mode": mode}}
    (found,), broken = observe([manifest], [pool("prefill", 1), pool("decode", 1)], [])
    assert not broken
    assert found.first_token_at_decode is said
