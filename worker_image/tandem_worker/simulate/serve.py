"""Start the simulated engine from the command line that would start the real one."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from socket import socket

import uvicorn

from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import PreflightRefused, UserMistake
from tandem_worker.gate import Gate
from tandem_worker.gate.asgi import App
from tandem_worker.launch import SGLANG, VLLM, drain_deadline_seconds, gate_environment
from tandem_worker.sglang_flags import as_vllm, disaggregation
from tandem_worker.simulate.app import Identity, build_app
from tandem_worker.simulate.engine import Engine
from tandem_worker.simulate.metrics import EngineMetrics
from tandem_worker.simulate.profile import Profile, load
from tandem_worker.simulate.scheduler import Limits
from tandem_worker.simulate.sglang_metrics import SGLangMetrics

DEFAULT_PORT = 8000
NIXL_PORT = 5600


@dataclass(frozen=True)
class Setup:
    """All that the command line and the profile decide."""

    profile: Profile
    limits: Limits
    identity: Identity
    max_queued: int | None


def setup_from(flags: EngineFlags, profile: Profile, *, engine: str = VLLM) -> Setup:
    """Read the engine's flags as the engine would, the profile's values being the defaults.

    Raises:
        UserMistake: a value is none, or the flags contradict each other.
        PreflightRefused: one sequence of full length does not fit the KV cache.
    """
    given = flags
    if engine == SGLANG:
        flags = as_vllm(flags)
    max_model_len = flags.integer("max-model-len", profile.max_model_len) or profile.max_model_len
    block_tokens = flags.integer("block-size", 16) or 16
    default_blocks = profile.kv_cache_tokens // block_tokens
    limits = Limits(
        max_batched_tokens=flags.integer("max-num-batched-tokens", profile.max_num_batched_tokens) or 0,
        max_sequences=flags.integer("max-num-seqs", profile.max_num_seqs) or 0,
        kv_blocks=flags.integer("num-gpu-blocks-override", default_blocks) or default_blocks,
        block_tokens=block_tokens,
        long_prefill_threshold=flags.integer("long-prefill-token-threshold", 0) or 0,
        chunked_prefill=flags.switch("enable-chunked-prefill", True),
    )
    for name, value in (
        ("max-model-len", max_model_len),
        ("max-num-batched-tokens", limits.max_batched_tokens),
        ("max-num-seqs", limits.max_sequences),
    ):
        if value < 1:
            raise UserMistake(f"--{name} must be positive")
    if not limits.chunked_prefill and limits.max_batched_tokens < max_model_len:
        raise UserMistake(
            f"--max-num-batched-tokens {limits.max_batched_tokens} is smaller than --max-model-len {max_model_len}, "
            "which needs chunked prefill"
        )
    kv_tokens = limits.kv_blocks * block_tokens
    if kv_tokens < max_model_len:
        raise PreflightRefused(
            "InsufficientKVCache",
            f"KV for one sequence of {max_model_len} tokens exceeds the KV cache of {kv_tokens} "
            f"tokens ({profile.name})",
        )
    served = flags.text("served-model-name", flags.model or profile.name)
    part = disaggregation(given) if engine == SGLANG else None
    identity = Identity(
        model=flags.model or profile.name,
        served_names=(served,),
        max_model_len=max_model_len,
        # As SGLang's bootstrap server, on the address that it serves on.
        side_channel=(flags.text("host", "127.0.0.1"), part.bootstrap_port if part.phase == "prefill" else 0)
        if part is not None
        else _side_channel(flags),
        engine=engine,
        phase=part.phase if part is not None else None,
    )
    return Setup(profile, limits, identity, flags.integer("max-num-queued-reqs"))


def _side_channel(flags: EngineFlags) -> tuple[str, int] | None:
    """Host and port of the KV hand-over, as for NIXL; None without --kv-transfer-config."""
    text = flags.values.get("kv-transfer-config")
    if text is None:
        return None
    try:
        config = json.loads(text)
    except ValueError:
        raise UserMistake(f"--kv-transfer-config is no JSON: {text!r}") from None
    if not isinstance(config, dict) or config.get("kv_connector") != "NixlConnector":
        raise UserMistake("--kv-transfer-config: only kv_connector NixlConnector is simulated")
    port = os.environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT", str(NIXL_PORT))
    if not port.isdigit() or int(port) > 65535:
        raise UserMistake(f"VLLM_NIXL_SIDE_CHANNEL_PORT={port!r} is no port")
    return os.environ.get("VLLM_NIXL_SIDE_CHANNEL_HOST") or "localhost", int(port)


def build_engine(setup: Setup) -> Engine:
    """The engine and its series."""
    limits, identity = setup.limits, setup.identity
    cache_config = {
        "block_size": str(limits.block_tokens),
        "cache_dtype": "auto",
        "enable_prefix_caching": "False",
        "kv_cache_size_tokens": str(limits.kv_blocks * limits.block_tokens),
        "num_gpu_blocks": str(limits.kv_blocks),
    }
    name = identity.served_names[0]
    metrics: EngineMetrics
    if identity.engine == SGLANG:
        metrics = SGLangMetrics(name, identity.max_model_len, cache_config, identity.phase)
    else:
        metrics = EngineMetrics(name, identity.max_model_len, cache_config)
    if setup.identity.side_channel is not None:
        metrics.with_kv_transfer()
    return Engine(setup.profile, limits, metrics, max_queued=setup.max_queued)


class Server(uvicorn.Server):
    """Stops as the engines do: after SIGTERM it still answers, until what is in the engine has ended. SGLang has no
    timeout (None)."""

    def __init__(
        self, config: uvicorn.Config, engine: Engine, shutdown_timeout_seconds: float | None
    ) -> None:
        super().__init__(config)
        self._engine = engine
        self._shutdown_timeout_seconds = shutdown_timeout_seconds
        self._draining: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """uvicorn's own handlers would close the listening sockets at once."""
        yield

    async def serve(self, sockets: list[socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_draining)
        await super().serve(sockets)

    def _begin_draining(self) -> None:
        if self._draining is None:
            self._engine.stopping = True
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._shutdown_timeout_seconds):
                await self._engine.drained()
        self._engine.abort_all()
        self.should_exit = True


def serve(flags: EngineFlags, *, profile: str, gate: bool, late_demotion: bool, engine: str = VLLM) -> int:
    """Serve until told to stop; the exit code."""
    given, setup = flags, setup_from(flags, load(profile), engine=engine)
    shutdown_seconds: float | None = None
    if engine == SGLANG:
        flags = as_vllm(flags)
    else:
        shutdown_seconds = flags.number("shutdown-timeout", drain_deadline_seconds(os.environ))
    host, port = flags.text("host", "0.0.0.0"), flags.integer("port", DEFAULT_PORT) or DEFAULT_PORT
    simulated = build_engine(setup)
    app: App = build_app(simulated, setup.identity)
    if gate:
        os.environ.update(gate_environment(given, os.environ, late_demotion=late_demotion))
        app = Gate(app)
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False)
    print(
        f"tandem-worker: simulating {setup.profile.name} as {setup.identity.served_names[0]!r} on {host}:{port}",
        file=sys.stderr,
        flush=True,
    )
    server = Server(config, simulated, shutdown_seconds)
    server.run()
    return 0 if server.started else 1


__all__: Sequence[str] = ["Server", "Setup", "build_engine", "serve", "setup_from"]
