"""Names, labels and bucket edges are those of vLLM 0.32 (recorded from a real one: vllm-0.32-metrics.txt)."""

from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

RECORDED = Path(__file__).parent / "vllm-0.32-metrics.txt"
# What a scraper of Tandem or of vLLM's dashboards reads; the rest of vLLM's series is not simulated.
NEEDED = {
    "vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds",
    "vllm:inter_token_latency_seconds", "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds", "vllm:request_inference_time_seconds",
    "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens",
    "vllm:prompt_tokens_by_source", "vllm:generation_tokens", "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens", "vllm:num_preemptions", "vllm:request_success", "vllm:cache_config_info",
}  # fmt: skip


def families(text: str) -> dict:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.fixture
def shown(simulated):
    worker = simulated("--served-model-name", "tiny", "--max-model-len", "2048")
    ask = {"prompt": list(range(40)), "max_tokens": 5}
    assert httpx.post(worker.url + "/v1/completions", json=ask, timeout=20).status_code == 200
    return families(httpx.get(worker.url + "/metrics").text)


def test_every_series_is_named_labelled_and_bucketed_as_vllms(shown):
    real = families(RECORDED.read_text())
    assert set(shown) >= NEEDED
    for name, family in shown.items():
        if not name.startswith("vllm:"):
            continue
        assert name in real, f"vLLM has no {name}"
        assert family.type == real[name].type, name
        if name == "vllm:cache_config_info":
            assert set(family.samples[0].labels) <= set(real[name].samples[0].labels)
            continue
        if name == "vllm:admission_rejections":
            continue  # one of its two reasons is simulated
        recorded = {
            _identity(sample) for sample in real[name].samples if not sample.name.endswith("_created")
        }
        assert {_identity(sample) for sample in family.samples} == recorded, name
    _one_request_is_counted_once(shown)


def _one_request_is_counted_once(shown) -> None:
    def value(name: str, **labels: str) -> float:
        (found,) = (
            sample.value
            for sample in shown[
                name.removesuffix("_total").removesuffix("_count").removesuffix("_sum")
            ].samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )
        return found

    assert value("vllm:prompt_tokens_total") == 40
    assert value("vllm:prompt_tokens_by_source_total", source="local_compute") == 40
    assert value("vllm:prompt_tokens_by_source_total", source="external_kv_transfer") == 0
    assert value("vllm:generation_tokens_total") == 5
    assert value("vllm:time_to_first_token_seconds_count") == 1
    assert value("vllm:inter_token_latency_seconds_count") == 4
    assert value("vllm:request_time_per_output_token_seconds_count") == 1
    assert value("vllm:request_success_total", finished_reason="length") == 1
    assert value("vllm:request_prompt_tokens_sum") == 40
    assert value("vllm:num_requests_running") == 0
    assert value("vllm:kv_cache_usage_perc") == 0


def _identity(sample) -> tuple:
    labels = dict(sample.labels)
    if "le" in labels:
        labels["le"] = float(labels["le"])
    return sample.name, tuple(sorted(labels.items()))
