"""What late demotion is worth: the same arrivals at a worker without it and with it.

    python -m e2e.bench_engine late-demotion                              the real engine
    python -m e2e.bench_engine.late_demotion --simulate h100-llama-8b     the simulated one, on this machine's clock

Short and long prompts arrive at random (Poisson, seeded), `--load` times as fast as the engine serves them one by one,
which is measured before. The target is `TARGET_IN_LONG_PROMPTS` times that of a long prompt, so each can be in time.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from e2e.bench_engine.environment import engine_python, tiny_model
from e2e.bench_engine.rows import merge, percentile
from e2e.cluster.control_plane import free_ports
from e2e.cluster.errors import ClusterError
from e2e.load import Answer, ask, prompt

REPOSITORY = Path(__file__).parents[2]
RESULT = REPOSITORY / "build" / "bench" / "engine.json"
MODEL_NAME = "served"
TARGET_IN_LONG_PROMPTS = 2.5
TTFT_ANNOTATION = "tandem.dev/ttft-target-seconds"
START_TIMEOUT_SECONDS = 900.0
WARM_UP = 8  # of each kind, one after the other; the last ones are timed


@dataclass(frozen=True)
class Mix:
    """Prompt lengths in tokens; `long_share` of the requests are long."""

    short_tokens: int
    long_tokens: int
    long_share: float
    output_tokens: int


@dataclass(frozen=True)
class Pace:
    """What was measured of the engine, and what follows from it."""

    short_seconds: float
    long_seconds: float
    requests_per_second: float
    target_seconds: float


@dataclass(frozen=True)
class Row:
    """One run. Shares are of all requests sent, failed ones included (they are not in time)."""

    case: str
    chunk_tokens: int | None
    engine: str
    late_demotion: bool
    load: float
    seed: int
    requests: int
    target_seconds: float
    in_time: float
    in_time_short: float
    in_time_long: float
    ttft_p50_seconds: float | None
    ttft_p95_seconds: float | None
    ttft_p99_seconds: float | None
    tpot_p50_seconds: float | None
    tpot_p95_seconds: float | None
    output_tokens_per_second: float
    took_seconds: float
    failed: int
    demotions: float | None


class Worker:
    """A worker process on loopback; `ready` waits until it serves."""

    def __init__(self, command: Sequence[str], podinfo: Path, folder: Path, *, late_demotion: bool) -> None:
        (port,) = free_ports(1)
        words = [*command, "--host", "127.0.0.1", "--port", str(port), "--served-model-name", MODEL_NAME]
        if late_demotion:
            words.append("--late-demotion")
        folder.mkdir()
        roots = os.pathsep.join(str(REPOSITORY / root) for root in ("worker_image", "crds"))
        environment = {
            **os.environ, "PYTHONPATH": roots, "TANDEM_PODINFO": str(podinfo),
            "TANDEM_GATE_DIRECTORY": str(folder), "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        self.late_demotion = late_demotion
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, cwd=folder)

    def ready(self) -> None:
        """Raises RuntimeError: it did not start; the message has the end of its log."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        with httpx.Client(timeout=2, trust_env=False) as client:
            while not _is_healthy(client, self.url + "/health"):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the worker did not start:\n{self._log.read_text()[-2000:]}")
                time.sleep(0.2)


def _is_healthy(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == 200
    except httpx.HTTPError:
        return False


async def measure(url: str, mix: Mix, load: float) -> Pace:
    """Warm the engine up, time both kinds of prompt alone, and derive the rate and the target."""
    chooser = random.Random(1)
    times: dict[int, list[float]] = {mix.short_tokens: [], mix.long_tokens: []}
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(WARM_UP):
            for tokens, seconds in times.items():
                answer = await ask(
                    client, url + "/v1", MODEL_NAME,
                    text=prompt(tokens, chooser), output_tokens=mix.output_tokens,
                )  # fmt: skip
                if answer.ttft_seconds is None:
                    raise RuntimeError(f"a warm-up request failed: {answer.failure}")
                seconds.append(answer.ttft_seconds)
    short, long = (statistics.median(seconds[WARM_UP // 2 :]) for seconds in times.values())
    mean = (1 - mix.long_share) * short + mix.long_share * long
    return Pace(short, long, load / mean, TARGET_IN_LONG_PROMPTS * long)


async def drive(
    url: str, mix: Mix, pace: Pace, *, seconds: float, seed: int
) -> tuple[list[tuple[bool, Answer]], float]:
    """Send the arrivals of `seed`; returns (long?, answer) of each and how long it took until the last answer."""
    chooser = random.Random(seed)
    arrivals: list[tuple[float, bool, str]] = []
    at = chooser.expovariate(pace.requests_per_second)
    while at < seconds:
        long = chooser.random() < mix.long_share
        arrivals.append((at, long, prompt(mix.long_tokens if long else mix.short_tokens, chooser)))
        at += chooser.expovariate(pace.requests_per_second)
    answers: list[tuple[bool, Answer]] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    started = time.monotonic()
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client, asyncio.TaskGroup() as group:

        async def one(long: bool, text: str) -> None:
            answer = await ask(client, url + "/v1", MODEL_NAME, text=text, output_tokens=mix.output_tokens)
            answers.append((long, answer))

        for due, long, text in arrivals:
            await asyncio.sleep(max(0.0, started + due - time.monotonic()))
            group.create_task(one(long, text))
    return answers, time.monotonic() - started


async def demotions(url: str) -> float | None:
    """The gate's counter; None without the queue."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for line in (await client.get(url + "/metrics")).text.splitlines():
            if line.startswith("tandem:demotions_total "):
                return float(line.split()[1])
    return None


def summarise(
    answers: list[tuple[bool, Answer]],
    *,
    engine: str,
    late_demotion: bool,
    load: float,
    seed: int,
    target_seconds: float,
    took_seconds: float,
    demotions: float | None,
) -> Row:
    """What the answers say."""
    ttfts = sorted(answer.ttft_seconds for _, answer in answers if answer.ttft_seconds is not None)
    tpots = sorted(answer.tpot_seconds for _, answer in answers if answer.tpot_seconds is not None)

    def in_time(*kinds: bool) -> float:
        chosen = [answer.ttft_seconds for long, answer in answers if long in kinds]
        good = sum(ttft is not None and ttft <= target_seconds for ttft in chosen)
        return good / len(chosen) if chosen else 1.0

    return Row(
        case=f"late demotion {'on' if late_demotion else 'off'}, {engine}, seed {seed}",
        chunk_tokens=None,
        engine=engine,
        late_demotion=late_demotion,
        load=load,
        seed=seed,
        requests=len(answers),
        target_seconds=target_seconds,
        in_time=in_time(False, True),
        in_time_short=in_time(False),
        in_time_long=in_time(True),
        ttft_p50_seconds=percentile(ttfts, 0.50),
        ttft_p95_seconds=percentile(ttfts, 0.95),
        ttft_p99_seconds=percentile(ttfts, 0.99),
        tpot_p50_seconds=percentile(tpots, 0.50),
        tpot_p95_seconds=percentile(tpots, 0.95),
        output_tokens_per_second=sum(answer.tokens for _, answer in answers) / took_seconds,
        took_seconds=took_seconds,
        failed=sum(answer.failure is not None for _, answer in answers),
        demotions=demotions,
    )


def compare(
    engine: str, command: Sequence[str], mix: Mix, *, load: float, seconds: float, seeds: Sequence[int]
) -> list[Row]:
    """Both workers, started together and driven in turns, so that a busy machine is busy for both.

    Raises:
        RuntimeError: a worker did not start or does not answer.
    """
    rows: list[Row] = []
    workers: list[Worker] = []
    with tempfile.TemporaryDirectory(prefix="tandem-") as name:
        folder = Path(name)
        podinfo = folder / "annotations"
        podinfo.write_text("")
        try:
            for wish in (False, True):
                workers.append(Worker(command, podinfo, folder / str(int(wish)), late_demotion=wish))
            for worker in workers:
                worker.ready()
            # Each is warmed up, and its gate learns the times; the pace is that of the one without.
            pace, _ = [asyncio.run(measure(worker.url, mix, load)) for worker in workers]
            podinfo.write_text(f'{TTFT_ANNOTATION}="{pace.target_seconds:g}"\n')
            time.sleep(1.1)  # the gate looks once a second
            for seed in seeds:
                for worker in workers:
                    before = asyncio.run(demotions(worker.url))
                    answers, took = asyncio.run(drive(worker.url, mix, pace, seconds=seconds, seed=seed))
                    after = asyncio.run(demotions(worker.url))
                    rows.append(
                        summarise(
                            answers,
                            engine=engine,
                            late_demotion=worker.late_demotion,
                            load=load,
                            seed=seed,
                            target_seconds=pace.target_seconds,
                            took_seconds=took,
                            demotions=None if before is None or after is None else after - before,
                        )
                    )
                    print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()
    return rows


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = [
        "| engine | load | seed | late demotion | requests | target s | in time % | short % | long % | p50 s | p99 s "
        "| took s | failed |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.engine} | {row.load:.2f} | {row.seed} | {'on' if row.late_demotion else 'off'} | {row.requests} "
            f"| {row.target_seconds:.3f} | {100 * row.in_time:.1f} | {100 * row.in_time_short:.1f} "
            f"| {100 * row.in_time_long:.1f} | {_seconds(row.ttft_p50_seconds)} "
            f"| {_seconds(row.ttft_p99_seconds)} "
            f"| {row.took_seconds:.0f} | {row.failed} |"
        )
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def on_real_engine(*, load: float = 1.5, seconds: float = 60.0, seeds: Sequence[int] = (1, 2)) -> list[Row]:
    """Raises RuntimeError, ClusterError."""
    python = engine_python()
    command = [
        str(python), "-m", "tandem_worker", str(tiny_model(python)), "--load-format", "dummy", "--dtype", "float32",
        "--enforce-eager", "--max-model-len", "2048",
    ]  # fmt: skip
    return compare("vllm", command, Mix(60, 1000, 0.1, 4), load=load, seconds=seconds, seeds=seeds)


def on_simulated_engine(profile: str, *, load: float, seconds: float, seeds: Sequence[int]) -> list[Row]:
    """Raises RuntimeError."""
    command = [sys.executable, "-m", "tandem_worker", "m", "--simulate", profile]
    return compare(
        f"simulated {profile}", command, Mix(400, 8000, 0.1, 4), load=load, seconds=seconds, seeds=seeds
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench_engine.late_demotion", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--simulate", metavar="PROFILE", help="a profile of the simulated engine")
    parser.add_argument(
        "--load", type=float, default=1.5, help="1: as fast as one by one; engines batch (1.5)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each run (60)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="one run each (1 2)")
    parser.add_argument("--out", type=Path, default=RESULT, help="JSON file of the rows")
    options = parser.parse_args(arguments)
    how = {"load": options.load, "seconds": options.seconds, "seeds": options.seeds}
    try:
        rows = on_simulated_engine(options.simulate, **how) if options.simulate else on_real_engine(**how)
    except (RuntimeError, ClusterError) as error:
        print(f"e2e.bench_engine.late_demotion: {error}", file=sys.stderr)
        return 1
    print(table(rows))
    merge(options.out, [asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
