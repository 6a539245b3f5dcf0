"""A node of several that only computes has no HTTP server: no gate, and its own way into the CPU build of vLLM."""

import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys

import pytest

from tandem_worker import cli, launch
from tandem_worker.device_memory import DeviceMemory
from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import PreflightRefused
from tests.worker.test_preflight_refuses_what_cannot_fit import check

RANK_1 = ["org/m", "--nnodes", "2", "--node-rank", "1", "--master-addr", "10.0.0.1", "--headless"]


class Started(Exception):
    """Instead of exec."""


@pytest.fixture
def started(monkeypatch):
    """The command line that `tandem-worker` with these words becomes."""

    def execve(path, command, environment):
        raise Started(command)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name != "vllm" else object())
    monkeypatch.setattr(launch, "knows_shutdown_timeout", lambda: True)

    def command(*words: str) -> list[str]:
        with pytest.raises(Started) as end:
            cli.main([*words, "--no-preflight"])
        return end.value.args[0]

    return command


def test_there_is_no_gate_before_a_node_without_a_server(started, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.32.0")
    assert "--middleware" not in started(*RANK_1)
    assert "--middleware" in started(*RANK_1[:-1]), "rank 0 has one"


def test_vllm_serve_is_told_what_it_would_be_told_by_hand(started, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.32.0")
    words = started(*RANK_1)
    assert words[1:4] == ["-m", "vllm.entrypoints.cli.main", "serve"]
    assert words[4 : 4 + len(RANK_1)] == RANK_1


def test_the_cpu_build_is_not_started_by_the_module_that_overlooks_headless(started, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert started(*RANK_1)[1:5] == ["-m", "tandem_worker.headless", "--model", "org/m"]
    assert started(*RANK_1[:-1])[2] == "vllm.entrypoints.openai.api_server"


def test_late_demotion_without_a_gate_is_a_users_mistake(run_worker):
    done = run_worker(*RANK_1, "--late-demotion")
    assert done.returncode == 2
    assert "--late-demotion is done by the gate" in done.stderr and "Traceback" not in done.stderr


def test_a_simulated_follower_holds_its_place_until_it_is_told_to_go():
    command = [sys.executable, "-m", "tandem_worker", *RANK_1, "--simulate", "h100-llama-8b"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert "waits for its end" in process.stderr.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_preflight_asks_for_the_devices_of_one_node():
    parallel = ["-tp", "2", "-pp", "2", "--max-model-len", "16384"]
    node = DeviceMemory(2, 24_000_000_000)
    assert check(*parallel, "-n", "2", device=node).verdict.fits
    with pytest.raises(PreflightRefused, match="needs 4 devices, and 2 are here"):
        check(*parallel, device=node)
    with pytest.raises(PreflightRefused, match="needs 4 devices, and 2 are here"):
        check("-tp", "8", "--nnodes=2", device=node)


def test_the_weights_are_shared_by_all_nodes():
    long = ["-tp", "1", "--max-model-len", "65536"]
    with pytest.raises(PreflightRefused, match="InsufficientKVCache"):
        check(*long, device=DeviceMemory(1, 16_000_000_000))
    assert check(*long, "-pp", "2", "-n", "2", device=DeviceMemory(1, 16_000_000_000)).verdict.fits


def test_short_flags_are_read_as_vllm_reads_them():
    flags = EngineFlags.parse(["m", "-n", "2", "-r", "1", "--headless"])
    assert (flags.integer("nnodes"), flags.integer("node-rank"), flags.headless) == (2, 1, True)
