"""The gate before the simulated engine, without sockets and on a clock that jumps: hours pass in seconds, exactly.

python -m tests.worker.gated_simulation        a table: shares in time with and without late demotion
"""

import asyncio
import json
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_worker.engine_flags import EngineFlags
from tandem_worker.gate import Gate
from tandem_worker.gate.targets import TTFT_KEY
from tandem_worker.simulate.app import build_app
from tandem_worker.simulate.profile import load
from tandem_worker.simulate.serve import build_engine, setup_from

PROFILE = "h100-llama-8b"


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of its next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        select = self._selector.select

        def jump(timeout: float | None = None) -> Any:
            events = select(0)
            if not events and timeout:
                self._now += timeout
            return events

        self._selector.select = jump  # type: ignore[method-assign]

    def time(self) -> float:
        return self._now


@dataclass(frozen=True)
class Request:
    """One arrival. Lengths in tokens; the profile has four characters to a token."""

    at_seconds: float
    prompt_tokens: int
    output_tokens: int = 4
    stream: bool = True

    def body(self) -> bytes:
        ask = {"prompt": "word" * self.prompt_tokens, "max_tokens": self.output_tokens, "stream": self.stream}
        return json.dumps(ask).encode()


@dataclass(frozen=True)
class Served:
    """`ttft_seconds` is that of the whole answer where it is not streamed."""

    request: Request
    status: int
    ttft_seconds: float
    ended_seconds: float


def serve(
    requests: Sequence[Request],
    *,
    late_demotion: bool,
    target_seconds: float | None,
    flags: Sequence[str] = (),
) -> list[Served]:
    """All requests through a gate and a simulated engine; in the order in which they ended.

    Sets the gate's environment for as long as it takes, and must not run inside an event loop.
    """
    setup = setup_from(EngineFlags.parse(["m", *flags]), load(PROFILE))
    served: list[Served] = []
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="tandem-") as folder:
        podinfo = Path(folder) / "annotations"
        podinfo.write_text("" if target_seconds is None else f'{TTFT_KEY}="{target_seconds}"\n')
        os.environ.update(
            TANDEM_PODINFO=str(podinfo),
            TANDEM_GATE_DIRECTORY=folder,
            TANDEM_LATE_DEMOTION="1" if late_demotion else "0",
        )
        loop = JumpingLoop()
        try:
            engine = build_engine(setup)
            engine._clock = loop.time
            gate = Gate(build_app(engine, setup.identity), clock=loop.time)
            loop.run_until_complete(_serve_all(gate, requests, served, loop.time))
        finally:
            loop.close()
            os.environ.clear()
            os.environ.update(before)
    return served


async def _serve_all(
    gate: Gate, requests: Sequence[Request], served: list[Served], clock: Callable[[], float]
) -> None:
    stop, started = asyncio.Event(), asyncio.Event()

    async def lifespan_receive() -> dict[str, str]:
        if started.is_set():
            await stop.wait()
            return {"type": "lifespan.shutdown"}
        return {"type": "lifespan.startup"}

    async def lifespan_send(message: Any) -> None:
        started.set()

    life = asyncio.create_task(gate({"type": "lifespan"}, lifespan_receive, lifespan_send))
    await started.wait()
    async with asyncio.TaskGroup() as group:
        for request in requests:
            await asyncio.sleep(max(0.0, request.at_seconds - clock()))
            group.create_task(_one(gate, request, served, clock))
    stop.set()
    await life


async def _one(gate: Gate, request: Request, served: list[Served], clock: Callable[[], float]) -> None:
    messages = [{"type": "http.request", "body": request.body(), "more_body": False}]
    status, first = 0, None

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        nonlocal status, first
        if message["type"] == "http.response.start":
            status = message["status"]
        elif first is None and message.get("body"):
            first = clock()

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/v1/completions", "raw_path": b"/v1/completions", "query_string": b"", "root_path": "",
        "headers": [(b"content-type", b"application/json")], "client": ("test", 1), "server": ("test", 80),
    }  # fmt: skip
    await gate(scope, receive, send)
    assert first is not None
    served.append(Served(request, status, first - request.at_seconds, clock()))


@dataclass(frozen=True)
class Mix:
    """Shares of prompt lengths in tokens."""

    lengths: tuple[tuple[int, float], ...] = ((300, 0.5), (1500, 0.4), (9000, 0.1))

    def arrivals(self, requests_per_second: float, seconds: float, seed: int) -> list[Request]:
        """Poisson arrivals, each prompt half to one and a half times a length of the mix."""
        chooser = random.Random(seed)
        at, requests = 0.0, []
        while at < seconds:
            at += chooser.expovariate(requests_per_second)
            tokens = chooser.choices([n for n, _ in self.lengths], [share for _, share in self.lengths])[0]
            requests.append(Request(at, round(tokens * chooser.uniform(0.5, 1.5))))
        return requests

    def rate(self, load_share: float) -> float:
        """Requests per second that keep the engine's prefill busy for `load_share` of the time."""
        profile = load(PROFILE)
        mean = sum(
            share * profile.step_time_seconds(
                prefill_tokens=n, prefill_context=n * n // 2, decode_sequences=0, kv_tokens=0
            )
            for n, share in self.lengths
        )  # fmt: skip
        return load_share / mean


def in_time(served: Sequence[Served], target_seconds: float) -> float:
    """Share of the requests that met the target."""
    return sum(one.status == 200 and one.ttft_seconds <= target_seconds for one in served) / len(served)


def table(target_seconds: float = 0.8, seconds: float = 200.0, seeds: Sequence[int] = (1, 2)) -> str:
    """Markdown: mean over the seeds."""
    mix = Mix()
    lines = [
        "| load | late demotion | in time % | TTFT p50 s | TTFT p99 s | last answer after the last arrival s |",
        "|---|---|---|---|---|---|",
    ]
    for load_share in (0.75, 0.85, 0.95, 1.1):
        for late_demotion in (False, True):
            shares, p50, p99, behind = [], [], [], []
            for seed in seeds:
                requests = mix.arrivals(mix.rate(load_share), seconds, seed)
                served = serve(requests, late_demotion=late_demotion, target_seconds=target_seconds)
                ttfts = sorted(one.ttft_seconds for one in served)
                shares.append(100 * in_time(served, target_seconds))
                p50.append(ttfts[len(ttfts) // 2])
                p99.append(ttfts[int(0.99 * len(ttfts))])
                behind.append(max(one.ended_seconds for one in served) - requests[-1].at_seconds)
            mean = [sum(values) / len(seeds) for values in (shares, p50, p99, behind)]
            lines.append(
                f"| {load_share:.2f} | {'on' if late_demotion else 'off'} | {mean[0]:.1f} | {mean[1]:.3f} "
                f"| {mean[2]:.2f} | {mean[3]:.1f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
