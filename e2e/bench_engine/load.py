"""`vllm bench serve` sends a trace, and says what it measured of each request."""

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.bench_engine.traffic import CHUNK, Ask, trace

_TIMEOUT_SECONDS = 900.0
# The program's own entry point: the `vllm` command of the CPU package looks up a distribution that has another name.
_BENCH = """\
import argparse
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


class LoadError(Exception):
    """The load generator failed; the message has the end of what it said."""


@dataclass(frozen=True)
class Answer:
    """One request as it was measured. Times are None of one that failed; `tpot` also of a single token."""

    prompt_tokens: int
    output_tokens: int
    ttft_seconds: float | None
    tpot_seconds: float | None
    failure: str = ""


@dataclass(frozen=True)
class Measured:
    answers: tuple[Answer, ...]
    seconds: float  # until the last answer
    output_tokens_per_second: float


def send(
    python: Path, url: str, model: Path, asks: Sequence[Ask], *, concurrency: int | None = None
) -> Measured:
    """Send the requests at their times, with `concurrency` at most that many at once. Raises LoadError."""
    with tempfile.TemporaryDirectory(prefix="tandem-load-") as name:
        folder = Path(name)
        (folder / "trace.jsonl").write_text(trace(asks))
        command = [
            str(python), "-c", _BENCH, "--backend", "vllm", "--base-url", url, "--model", str(model),
            "--served-model-name", "served", "--dataset-name", "timed_trace",
            "--dataset-path", str(folder / "trace.jsonl"), "--timed-trace-chunk-hash-size", str(CHUNK),
            "--num-prompts", str(len(asks)), "--temperature", "0", "--disable-tqdm",
            "--save-result", "--save-detailed", "--result-dir", str(folder), "--result-filename", "result.json",
        ]  # fmt: skip
        if concurrency is not None:
            command += ["--max-concurrency", str(concurrency)]
        # The prompt's tokens are drawn by Python's hash of the ids, which else differs from run to run.
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0", "VLLM_NO_USAGE_STATS": "1"}
        try:
            done = subprocess.run(
                command, env=environment, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise LoadError(f"vllm bench serve took longer than {_TIMEOUT_SECONDS:g} s") from None
        if done.returncode != 0:
            raise LoadError(f"vllm bench serve failed:\n{(done.stderr or done.stdout)[-2000:]}")
        return measured(json.loads((folder / "result.json").read_text()))


def measured(result: dict[str, Any]) -> Measured:
    """From the generator's own file (`--save-detailed`)."""
    answers = []
    for prompt, output, ttft, gaps, error in zip(
        result["input_lens"], result["output_lens"], result["ttfts"], result["itls"], result["errors"], strict=True
    ):  # fmt: skip
        failed = bool(error) or not output
        # Not the mean of the gaps: one event of the stream may carry several tokens.
        each = None if failed or output < 2 else sum(gaps) / (output - 1)
        answers.append(
            Answer(
                int(prompt),
                int(output),
                None if failed else ttft,
                each,
                str(error)[:200] if error else "no token" if failed else "",
            )
        )
    seconds = float(result["duration"])
    return Measured(tuple(answers), seconds, sum(one.output_tokens for one in answers) / seconds)
