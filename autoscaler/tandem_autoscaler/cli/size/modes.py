"""Which mode needs fewer GPUs for traffic that is only planned: the models with the data sheet's times."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tandem_autoscaler.cli import flags
from tandem_autoscaler.cli.manifest import Manifest
from tandem_autoscaler.cli.mistake import Mistake
from tandem_autoscaler.cli.size.question import Question
from tandem_autoscaler.diagnose.break_even import Kinds, compare, even_tpot
from tandem_autoscaler.diagnose.chunking import Grid
from tandem_autoscaler.diagnose.diagnosis import Modes
from tandem_autoscaler.diagnose.machine import Machine
from tandem_autoscaler.diagnose.mixed import worker_by_data_sheet
from tandem_autoscaler.model.colocated import Promise, Traffic
from tandem_autoscaler.model.prompt_lengths import Lengths

# Only the mean length is asked for; measured traces vary by about as much as that (ALGORITHM 3).
_VARIATION, _PARTS = 1.0, 9
_PERCENTILE = 95


@dataclass(frozen=True)
class Planned:
    """The flags. None: not given."""

    rate: float | None
    prompt: int | None
    answer: int | None
    ttft: float | None
    tpot: float | None


def add(made: flags.Parser, tokens: int) -> None:
    """`--rate`, `--prompt`, `--answer`, `--ttft` and `--tpot`."""
    made.add_argument(
        "--rate", type=flags.factor(1e6, "rate"), metavar="PER_SECOND",
        help="requests per second: also says which mode needs fewer GPUs for them (with --prompt and --answer)",
    )  # fmt: skip
    made.add_argument("--prompt", type=flags.whole(tokens), metavar="TOKENS", help="the mean prompt")
    made.add_argument("--answer", type=flags.whole(tokens), metavar="TOKENS", help="the mean answer")
    for promise in ("ttft", "tpot"):
        made.add_argument(
            f"--{promise}", type=flags.duration(3600.0, "an hour"), metavar="TIME",
            help=f"the promise (default: the manifest's slo.{promise})",
        )  # fmt: skip


def planned(given: argparse.Namespace) -> Planned:
    return Planned(given.rate, given.prompt, given.answer, given.ttft, given.tpot)


def modes(questions: Sequence[Question], plan: Planned, manifest: Manifest | None) -> Modes | None:
    """None where no traffic is planned. Raises Mistake."""
    if plan.rate is None:
        if plan.prompt is not None or plan.answer is not None:
            raise Mistake("--prompt and --answer say what a request is; --rate says how many come")
        return None
    if plan.prompt is None or plan.answer is None:
        raise Mistake("--rate needs --prompt and --answer: the mean tokens of each")
    promise = _promise(plan, manifest)
    machines = [_machine(question) for question in (questions[0], questions[-1])]
    demand = questions[-1].demand
    prefill, decode = (worker_by_data_sheet(machine, float(demand.max_sequences)) for machine in machines)
    thresholds = manifest is None or manifest.spec.engine.type == "vllm"
    chunks = Grid(demand.context, demand.max_sequences, thresholds)
    kinds = Kinds(
        decode, machines[1].gpus, prefill, machines[0].gpus, decode, machines[1].gpus, chunks=chunks
    )
    traffic = Traffic(plan.rate, log_normal(plan.prompt), float(plan.answer))
    now = "Colocated" if manifest is None else manifest.spec.mode
    return Modes(now, compare(kinds, traffic, promise), even_tpot(kinds, traffic, promise))


def log_normal(mean: float) -> Lengths:
    """In equal parts."""
    variance = math.log1p(_VARIATION**2)
    scores = [NormalDist().inv_cdf((part + 0.5) / _PARTS) for part in range(_PARTS)]
    raw = [math.exp(math.sqrt(variance) * score) for score in scores]
    factor = mean * _PARTS / sum(raw)
    return tuple((max(1.0, factor * length), 1.0 / _PARTS) for length in raw)


def _promise(plan: Planned, manifest: Manifest | None) -> Promise:
    slo = None if manifest is None else manifest.spec.slo
    ttft = plan.ttft if plan.ttft is not None else None if slo is None else slo.ttft_seconds
    tpot = plan.tpot if plan.tpot is not None else None if slo is None else slo.tpot_seconds
    if ttft is None or tpot is None:
        raise Mistake("--rate needs both promises: --ttft and --tpot, or a manifest with spec.slo")
    percentile = _PERCENTILE if slo is None else slo.percentile
    return Promise(ttft, tpot, 1.0 - percentile / 100.0)


def _machine(question: Question) -> Machine:
    if question.gpu is None:
        raise Mistake("--rate needs a GPU: name it with --gpu, or by the manifest's node labels")
    if question.tensor_parallel != question.gpus:
        raise Mistake("--rate knows the times of one tensor-parallel group only, not of pipeline stages")
    demand = question.demand
    return Machine(
        question.model.architecture, question.gpu, question.gpus, demand.quantization, demand.kv_dtype
    )
