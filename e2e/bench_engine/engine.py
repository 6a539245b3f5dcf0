"""Processes on loopback: engines, each on cores of its own, and a router in front of several."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from e2e.cluster.control_plane import free_ports

_START_TIMEOUT_SECONDS = 600.0
_STOP_TIMEOUT_SECONDS = 20.0
_KV_TRANSFER = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}
MOST_TOKENS = 4096  # of one sequence; the model has no more positions


class NotStarted(Exception):
    """A process ended or did not answer in time; the message has the end of its log."""


@dataclass(frozen=True)
class Process:
    """One that serves at `url` after `ready`."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def ready(self, path: str = "/health") -> None:
        """Wait for it. Raises NotStarted."""
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        with httpx.Client(timeout=2, trust_env=False) as client:
            while self.process.poll() is None and time.monotonic() < deadline:
                try:
                    if client.get(self.url + path).status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                time.sleep(0.3)
        why = "ended" if self.process.poll() is not None else "did not answer in time"
        raise NotStarted(f"{self.log.stem} {why}:\n{self.log.read_text(errors='replace')[-2000:]}")


def all_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


@contextmanager
def engine(python: Path, model: Path, folder: Path, flags: Sequence[str]) -> Iterator[str]:
    """The URL of one engine on all cores. Raises NotStarted."""
    with _engine(python, model, folder / "engine.log", flags, all_cores()) as started:
        started.ready()
        yield started.url


@contextmanager
def pair(python: Path, model: Path, folder: Path, flags: Sequence[str], *, apart: bool) -> Iterator[str]:
    """The URL of a router before two engines, each on half of the cores.

    `apart`: one computes the prompts, the other the answers, with the KV cache sent over NIXL. Else both do both, and
    the router gives each request to the one with less to do. Raises NotStarted.
    """
    cores = all_cores()
    half = max(1, len(cores) // 2)
    with ExitStack() as stack:
        engines = [
            stack.enter_context(
                _engine(
                    python, model, folder / f"engine{number}.log", flags, mine,
                    kv_port=free_ports(1)[0] if apart else None,
                )
            )
            for number, mine in enumerate((cores[:half], cores[half:] or cores[:half]))
        ]  # fmt: skip
        for started in engines:
            started.ready()
        router = stack.enter_context(
            _router([one.url for one in engines], folder / "router.log", apart=apart)
        )
        router.ready("/readiness")
        yield router.url


def _engine(
    python: Path, model: Path, log: Path, flags: Sequence[str], cores: Sequence[int], *, kv_port: int | None = None
) -> AbstractContextManager[Process]:  # fmt: skip
    port = free_ports(1)[0]
    command = [
        "taskset", "--cpu-list", ",".join(map(str, cores)),
        str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", "served",
        "--load-format", "dummy", "--dtype", "float32", "--enforce-eager", "--max-model-len", str(MOST_TOKENS),
        "--host", "127.0.0.1", "--port", str(port), *flags,
    ]  # fmt: skip
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(len(cores)),
        "VLLM_WORKER_MULTIPROC_METHOD": "fork", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
    }  # fmt: skip
    if kv_port is not None:
        command += ["--kv-transfer-config", json.dumps(_KV_TRANSFER)]
        environment |= {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(kv_port), "UCX_TLS": "tcp",
        }  # fmt: skip
    return _started(command, environment, f"http://127.0.0.1:{port}", log)


def _router(urls: Sequence[str], log: Path, *, apart: bool) -> AbstractContextManager[Process]:
    port = free_ports(1)[0]
    command = [
        str(Path(sys.executable).parent / "vllm-router"), "--host", "127.0.0.1", "--port", str(port),
        "--prometheus-port", str(free_ports(1)[0]), "--policy", "power_of_two",
    ]  # fmt: skip
    if apart:
        prefill, decode = urls
        command += [
            "--vllm-pd-disaggregation",
            "--kv-connector",
            "nixl",
            "--prefill",
            prefill,
            "--decode",
            decode,
        ]
    else:
        command += ["--worker-urls", *urls]
    return _started(command, {}, f"http://127.0.0.1:{port}", log)


@contextmanager
def _started(command: Sequence[str], environment: dict[str, str], url: str, log: Path) -> Iterator[Process]:
    with log.open("w") as sink:
        # A session of its own: the engine's children must end with it.
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=sink, stderr=sink, cwd=log.parent, start_new_session=True
        )  # fmt: skip
    try:
        yield Process(url, process, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
