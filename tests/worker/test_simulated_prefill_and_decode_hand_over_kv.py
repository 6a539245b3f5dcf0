"""Disaggregated: the prefill leg's kv_transfer_params let the decode leg fetch the KV instead of computing it."""

import json

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.worker.loopback import free_port

CONFIG = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})


@pytest.fixture
def pair(simulated, tmp_path_factory):
    """A prefiller and a decoder, each with a control directory of its own, as in pods of their own."""

    def start(name: str):
        return simulated(
            "--kv-transfer-config", CONFIG, "--served-model-name", "m",
            VLLM_NIXL_SIDE_CHANNEL_HOST="127.0.0.1",
            VLLM_NIXL_SIDE_CHANNEL_PORT=str(free_port()),
            TANDEM_GATE_DIRECTORY=str(tmp_path_factory.mktemp(name) / "g"),
        )  # fmt: skip

    return start("p"), start("d")


def series(worker) -> dict:
    found = {}
    for family in text_string_to_metric_families(httpx.get(worker.url + "/metrics").text):
        for sample in family.samples:
            labels = {
                key: value for key, value in sample.labels.items() if key in ("source", "finished_reason")
            }
            found[(sample.name, *labels.values())] = sample.value
    return found


def prefill(worker, prompt) -> dict:
    """What vllm-router sends to the first leg."""
    ask = {
        "prompt": prompt, "max_tokens": 1, "stream": False,
        "kv_transfer_params": {
            "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
            "remote_block_ids": None, "remote_host": None, "remote_port": None,
        },
    }  # fmt: skip
    answer = httpx.post(worker.url + "/v1/completions", json=ask, timeout=20)
    assert answer.status_code == 200
    return answer.json()["kv_transfer_params"]


def test_the_decoder_computes_nothing_and_the_prefiller_is_freed(pair):
    prefiller, decoder = pair
    prompt = list(range(782))
    params = prefill(prefiller, prompt)
    assert params["do_remote_prefill"] is True and params["do_remote_decode"] is False
    assert series(prefiller)[("vllm:kv_cache_usage_perc",)] > 0, "held until it is fetched"

    ask = {"prompt": prompt, "max_tokens": 6, "kv_transfer_params": params, "stream": True}
    answer = httpx.post(decoder.url + "/v1/completions", json=ask, timeout=20)
    assert answer.status_code == 200 and answer.text.count('"text":"') == 6

    seen = series(decoder)
    assert seen[("vllm:prompt_tokens_by_source_total", "external_kv_transfer")] == 782
    assert seen[("vllm:prompt_tokens_by_source_total", "local_compute")] == 0
    assert seen[("vllm:nixl_xfer_time_seconds_count",)] == 1
    assert seen[("vllm:nixl_bytes_transferred_sum",)] == 782 * 131072
    assert series(prefiller)[("vllm:kv_cache_usage_perc",)] == 0
    assert series(prefiller)[("vllm:prompt_tokens_by_source_total", "local_compute")] == 782
    assert series(prefiller)[("tandem:ttft_seconds_count",)] == 1, "the leg's one token is a first token"


def test_kv_that_was_fetched_already_cannot_be_fetched_again(pair):
    prefiller, decoder = pair
    params = prefill(prefiller, [1] * 50)
    ask = {"prompt": [1] * 50, "max_tokens": 2, "kv_transfer_params": params}
    assert httpx.post(decoder.url + "/v1/completions", json=ask, timeout=20).status_code == 200
    failed = httpx.post(decoder.url + "/v1/completions", json=ask, timeout=20)
    assert failed.status_code == 500
    assert "KV transfer failed" in failed.json()["error"]["message"]
    assert series(decoder)[("vllm:request_success_total", "error")] == 1
    assert series(decoder)[("vllm:kv_cache_usage_perc",)] == 0


def test_a_prefiller_that_is_gone_gives_an_error_not_a_hang(pair):
    prefiller, decoder = pair
    params = prefill(prefiller, [1] * 50)
    prefiller.process.kill()
    prefiller.wait()
    ask = {"prompt": [1] * 50, "max_tokens": 2, "kv_transfer_params": params}
    assert httpx.post(decoder.url + "/v1/completions", json=ask, timeout=20).status_code == 500
    streamed = httpx.post(decoder.url + "/v1/completions", json={**ask, "stream": True}, timeout=20)
    assert '"error"' in streamed.text
    assert series(decoder)[("vllm:num_requests_waiting",)] == 0


def test_params_that_lack_the_address_are_a_400(pair):
    _, decoder = pair
    ask = {"prompt": "x", "kv_transfer_params": {"do_remote_prefill": True}}
    failed = httpx.post(decoder.url + "/v1/completions", json=ask, timeout=20)
    assert failed.status_code == 400 and "remote_host" in failed.json()["error"]["message"]
