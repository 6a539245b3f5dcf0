"""`tandem-worker --engine sglang`: SGLang's flags, its readiness, and how it takes SIGTERM with its first request."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import PreflightRefused, UserMistake
from tandem_worker.gate import Gate
from tandem_worker.gate.sigterm import SigtermWatch
from tandem_worker.launch import PROMPTS_ELSEWHERE, gate_environment, sglang_command
from tandem_worker.model_files import ModelFiles
from tandem_worker.preflight import check
from tandem_worker.sglang_flags import as_vllm, disaggregation
from tests.worker.loopback import (
    Worker,
    free_port,
    workers_on_loopback,
)
from tests.worker.test_preflight_refuses_what_cannot_fit import GPU_24, LLAMA_8B


def flags(*words: str) -> EngineFlags:
    return EngineFlags.parse(words)


# --- the command line -------------------------------------------------------------------------------------------
def test_the_engine_gets_its_flags_as_they_were_given():
    words = ["--model-path", "org/m", "--tp-size=2", "--chunked-prefill-size", "-1"]
    assert sglang_command(flags(*words), python="python", gate=True) == [
        "python", "-m", "tandem_worker.sglang_server", *words,
    ]  # fmt: skip
    assert sglang_command(flags(*words), python="python", gate=False)[2] == "sglang.launch_server"


def test_several_tokenizer_workers_would_be_processes_without_a_gate():
    with pytest.raises(UserMistake, match="does not go with the gate"):
        sglang_command(flags("--tokenizer-worker-num", "2"), python="python", gate=True)
    assert sglang_command(flags("--tokenizer-worker-num", "2"), python="python", gate=False)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--model-path", "org/m"], "model", "org/m"),
        (["--context_length=8192"], "max-model-len", "8192"),
        (["--tp", "4"], "tensor-parallel-size", "4"),
        (["--mem-fraction-static", "0.8"], "gpu-memory-utilization", "0.8"),
        (["--max-running-requests", "64"], "max-num-seqs", "64"),
        (["--chunked-prefill-size", "4096"], "max-num-batched-tokens", "4096"),
        (["--chunked-prefill-size", "-1", "--context-length", "32768"], "max-num-batched-tokens", "32768"),
        (["--chunked-prefill-size=-1"], "max-num-batched-tokens", "16384"),
        ([], "port", "30000"),
    ],
)
def test_what_the_worker_asks_of_the_flags_is_asked_in_vllms_words(words, name, value):
    assert as_vllm(flags(*words)).values[name] == value


def test_chunked_prefill_off_is_off():
    assert not as_vllm(flags("--chunked-prefill-size", "-1")).switch("enable-chunked-prefill", True)
    assert as_vllm(flags("--chunked-prefill-size", "512")).switch("enable-chunked-prefill", True)


def test_the_preflight_reads_sglangs_flags():
    told = as_vllm(flags("--model-path", "m", "--context-length", "131072"))
    with pytest.raises(PreflightRefused, match="InsufficientKVCache"):
        check(told, ModelFiles(LLAMA_8B, None), GPU_24)


@pytest.mark.parametrize("words", [["both"], ["prefill", "--disaggregation-bootstrap-port", "70000"]])
def test_a_wrong_part_in_a_hand_over_is_a_users_mistake(words):
    with pytest.raises(UserMistake):
        disaggregation(flags("--disaggregation-mode", *words))


def test_the_gate_of_a_decode_worker_knows_that_no_prompt_is_computed_here():
    for mode, told in (("decode", "1"), ("prefill", "0"), ("null", "0")):
        assert gate_environment(flags("--disaggregation-mode", mode), {})[PROMPTS_ELSEWHERE] == told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--engine", "tgi", "m"], "'tgi' is none of vllm, sglang"),
        (["--engine=sglang", "--late-demotion", "--model-path", "m"], "--late-demotion is for --engine vllm"),
        (["--engine=sglang"], "no MODEL given"),
        (
            ["--engine=sglang", "--model-path", "m", "--no-preflight"],
            "SGLang is not installed in this Python",
        ),
    ],
)
def test_a_mistake_is_one_line(run_worker, words, sentence):
    done = run_worker(*words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


# --- the gate ---------------------------------------------------------------------------------------------------
async def test_the_gate_is_the_outermost_of_a_fastapi_app_as_sglangs_is(gate_directory):
    """`app.add_middleware` after SGLang's own CORS middleware, which is how `sglang_server` puts it there."""
    app = FastAPI()
    app.add_middleware(CORSMiddleware, allow_origins=["*"])
    app.add_middleware(Gate)

    @app.get("/ready")
    async def ready():
        return {}

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://worker") as client:
        assert (await client.get("/ready")).status_code == 200
        layers = [app.middleware_stack]
        while not isinstance(layers[-1], Gate | CORSMiddleware):
            layers.append(layers[-1].app)
        gate = layers[-1]
        assert isinstance(gate, Gate), "before whatever else the engine has"
        gate.door.close(5.0)
        for path in ("/ready", "/health", "/health_generate"):
            assert (await client.get(path)).status_code == 503
        refused = await client.post("/v1/completions", json={}, headers={"origin": "http://x"})
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)


def test_sigterm_is_seen_also_after_someone_else_took_it():
    seen: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, lambda *_: seen.append("server"))
        watch = SigtermWatch(lambda: seen.append("gate"))
        assert watch.arm()
        assert watch.arm(), "again is nothing"
        signal.raise_signal(signal.SIGTERM)
        assert seen == ["gate", "server"]
        signal.signal(signal.SIGTERM, lambda *_: seen.append("engine"))
        assert watch.arm()
        seen.clear()
        signal.raise_signal(signal.SIGTERM)
        assert seen == ["gate", "engine"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_one_who_passes_the_signal_on_to_us_makes_no_circle():
    seen: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, lambda *_: seen.append("server"))
        watch = SigtermWatch(lambda: seen.append("gate"))
        watch.arm()
        ours = signal.getsignal(signal.SIGTERM)

        def polite(number, frame):
            seen.append("polite")
            ours(number, frame)

        signal.signal(signal.SIGTERM, polite)
        watch.arm()
        signal.raise_signal(signal.SIGTERM)
        assert seen == ["gate", "polite", "server"]
    finally:
        signal.signal(signal.SIGTERM, before)


# --- the simulated engine ---------------------------------------------------------------------------------------
@pytest.fixture
def sglang(gate_directory):
    """Start simulated SGLang workers by SGLang's own flags."""
    with workers_on_loopback() as started:

        def start(*words: str, profile: str = "cpu-tiny", **environment: str) -> Worker:
            named = ("--engine=sglang", "--model-path", "org/m", "--served-model-name", "m")
            return started(*named, "--simulate", profile, *words, **environment)

        yield start


def test_it_answers_as_sglang_and_tells_the_gates_measures_with_the_engines(sglang):
    worker = sglang("--context-length", "4096")
    assert httpx.get(worker.url + "/ready").status_code == 200
    card = httpx.get(worker.url + "/v1/models").json()["data"][0]
    assert (card["id"], card["owned_by"], card["max_model_len"]) == ("m", "sglang", 4096)
    answer = httpx.post(
        worker.url + "/v1/completions", json={"model": "m", "prompt": "hello", "max_tokens": 4}
    )
    assert answer.json()["usage"]["completion_tokens"] == 4
    text = httpx.get(worker.url + "/metrics").text
    for series in (
        'sglang:num_running_reqs{engine_type="unified"', 'sglang:token_usage{engine_type="unified"',
        "sglang:time_to_first_token_seconds_bucket", "sglang:num_requests_total", "tandem:requests_total",
    ):  # fmt: skip
        assert series in text
    assert "vllm:" not in text


def test_after_sigterm_it_takes_requests_for_ever_and_the_gate_does_not(sglang):
    """Without the gate as SGLang is (measured); with it as every worker is."""
    for gate in (True, False):
        worker = sglang(*([] if gate else ["--no-gate"]))
        ask = {"model": "m", "prompt": "x", "max_tokens": 1500, "stream": True}
        with httpx.stream("POST", worker.url + "/v1/completions", json=ask, timeout=20) as open_stream:
            pieces = open_stream.iter_raw()
            next(pieces)
            worker.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 10
            while httpx.get(worker.url + "/ready").status_code != 503:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            late = httpx.post(
                worker.url + "/v1/completions", json={**ask, "max_tokens": 1, "stream": False}, timeout=20
            )
        assert late.status_code == (503 if gate else 200)


def test_a_hand_over_without_a_room_is_refused_as_sglang_refuses_it(sglang):
    worker = sglang("--disaggregation-mode", "decode")
    answer = httpx.post(worker.url + "/v1/completions", json={"model": "m", "prompt": "x"})
    assert answer.status_code == 400
    assert "without bootstrap room id" in answer.text


def test_a_prefiller_that_is_not_there_ends_the_request_with_an_error(sglang):
    worker = sglang("--disaggregation-mode", "decode")
    ask = {
        "model": "m", "prompt": "x", "bootstrap_host": "127.0.0.1", "bootstrap_port": free_port(), "bootstrap_room": 7,
    }  # fmt: skip
    answer = httpx.post(worker.url + "/v1/completions", json=ask, timeout=20)
    assert answer.status_code == 500
    assert "KV transfer failed" in answer.text


def test_the_two_legs_meet_in_either_order_and_the_prefiller_is_freed(sglang, tmp_path_factory):
    def start(mode: str, *more: str) -> Worker:
        directory = str(tmp_path_factory.mktemp(mode) / "g")
        return sglang("--disaggregation-mode", mode, *more, TANDEM_GATE_DIRECTORY=directory)

    port = free_port()
    prefill, decode = start("prefill", "--disaggregation-bootstrap-port", str(port)), start("decode")
    with ThreadPoolExecutor() as pool:
        for room, (first, second) in enumerate(((prefill, decode), (decode, prefill))):
            ask = {
                "model": "m", "prompt": list(range(500)), "max_tokens": 3, "bootstrap_host": "127.0.0.1",
                "bootstrap_port": port, "bootstrap_room": room,
            }  # fmt: skip
            begun = pool.submit(httpx.post, first.url + "/v1/completions", json=ask, timeout=30)
            time.sleep(0.3)
            answers = {
                second: httpx.post(second.url + "/v1/completions", json=ask, timeout=30),
                first: begun.result(),
            }
            assert answers[decode].json()["choices"][0]["text"] == " the quick brown"
    series = {worker: httpx.get(worker.url + "/metrics").text for worker in (prefill, decode)}
    assert (
        'token_usage{engine_type="prefill",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.0'
        in (series[prefill])
    )
    computed = 'mode="prefill_compute",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"}'
    assert f"{computed} 1000.0" in series[prefill]
    assert f"{computed} 0.0" in series[decode]
    assert "sglang:time_to_first_token_seconds_count" not in series[prefill], "SGLang's prefill tells none"
    assert (
        'sglang:time_to_first_token_seconds_count{engine_type="decode",model_name="m"} 2.0' in series[decode]
    )
    assert "tandem:prompt_tokens_count 2.0" in series[prefill]
    assert "tandem:prompt_tokens_count 0.0" in series[decode], "each prompt once, where it was computed"


@pytest.mark.skipif(
    importlib.util.find_spec("sglang_router") is None,
    reason="sglang-router is not installed (pip install sglang-router==0.3.2)",
)
def test_the_real_router_hands_over_between_two_simulated_workers(sglang, tmp_path_factory):
    port, router_port = free_port(), free_port()
    prefill = sglang(
        "--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(port),
        TANDEM_GATE_DIRECTORY=str(tmp_path_factory.mktemp("p") / "g"),
    )  # fmt: skip
    decode = sglang(
        "--disaggregation-mode", "decode", TANDEM_GATE_DIRECTORY=str(tmp_path_factory.mktemp("d") / "g")
    )
    router = subprocess.Popen(
        [
            sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(router_port),
            "--pd-disaggregation", "--prefill", prefill.url, str(port), "--decode", decode.url,
            "--health-check-endpoint", "/ready", "--policy", "power_of_two", "--prometheus-port", str(free_port()),
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ),
    )  # fmt: skip
    url = f"http://127.0.0.1:{router_port}"
    try:
        deadline = time.monotonic() + 40
        while True:
            try:
                if httpx.get(url + "/workers").json()["total"] == 2:
                    break
            except (httpx.HTTPError, KeyError, ValueError):
                pass
            assert time.monotonic() < deadline, "the router does not come up"
            time.sleep(0.2)
        ask = {"model": "m", "prompt": "hello there", "max_tokens": 4}
        answer = httpx.post(url + "/v1/completions", json=ask, timeout=30)
        assert answer.json()["choices"][0]["text"] == " the quick brown fox"
        listed = {worker["url"]: worker["id"] for worker in httpx.get(url + "/workers").json()["workers"]}
        httpx.delete(f"{url}/workers/{listed[decode.url]}")
        time.sleep(1.5)
        assert httpx.post(url + "/v1/completions", json=ask, timeout=30).status_code == 503
        httpx.post(url + "/workers", json={"url": decode.url, "worker_type": "decode"})
        time.sleep(2.5)
        assert httpx.post(url + "/v1/completions", json=ask, timeout=30).status_code == 200
    finally:
        router.kill()
        router.wait()
