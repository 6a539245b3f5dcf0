"""The flags of `kubectl tandem replay`, and its steps."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from tandem_autoscaler.cli import flags
from tandem_autoscaler.cli.mistake import Mistake

POLICIES = ("tandem", "constant_headroom", "hpa", "static")
_MOST_SCALE = 1000.0
_EXAMPLES = """\
  kubectl tandem replay -f chat.yaml --trace azure-conv-2023
  kubectl tandem replay -f chat.yaml --trace requests.csv --scale 2 --plot replay.png
  kubectl tandem replay -f chat.yaml --trace 'prometheus:http://localhost:9090?range=6h' -o json
"""


def add(commands: "flags.Commands[flags.Parser]") -> None:
    """Add the subcommand to the program."""
    made = flags.command(
        commands,
        "replay",
        summary="simulate a manifest on a trace, without a cluster",
        description="Simulates the workers of an InferenceService on a trace of requests, sized by Tandem and by "
        "others, and recommends minReplicas and maxReplicas. Needs no cluster and no GPU.",
        run=run,
        examples=_EXAMPLES,
    )
    flags.manifest(made, required=True)
    seconds = flags.duration(31 * 86400.0, "31 days")
    trace = made.add_argument(
        "--trace", required=True, metavar="TRACE",
        help="a name (azure-conv-2023, ...), a CSV file of timestamp, prompt and output tokens, or "
        "prometheus:URL[?range=1h&end=TIME&namespace=NAME&match=SELECTOR]",
    )  # fmt: skip
    hardware = made.add_argument(
        "--hardware", metavar="NAME",
        help="one worker's times, such as h100-llama-8b; default: by the manifest's model and node selector",
    )  # fmt: skip
    made.add_argument(
        "--cold-start", type=seconds, metavar="TIME",
        help="from decision to serving; default: spec.autoscaling.coldStart, or else 40s",
    )  # fmt: skip
    made.add_argument(
        "--scale", type=flags.factor(_MOST_SCALE), metavar="FACTOR", help="so many times the trace's requests"
    )
    made.add_argument(
        "--duration", type=seconds, metavar="TIME", help="only the trace's first part, such as 30m"
    )
    made.add_argument("--seed", type=int, default=1, metavar="N", help="of all that is random (default 1)")
    policies = made.add_argument(
        "--policies", type=flags.some_of, default=POLICIES, metavar="NAME,...",
        help=f"default {','.join(POLICIES)}",
    )  # fmt: skip
    made.add_argument("--plot", type=Path, metavar="FILE.png", help="draw load and replicas over time")
    flags.output(made)
    flags.completes(made, trace, lambda _: _traces())
    flags.completes(made, hardware, lambda _: _workers())
    flags.completes(made, policies, lambda _: POLICIES)


def _traces() -> Iterable[str]:
    from tandem_autoscaler.simulator.traces import NAMES

    return NAMES


def _workers() -> Iterable[str]:
    from tandem_autoscaler.simulator.catalogue import catalogue

    return catalogue()


def run(given: argparse.Namespace) -> int:
    """Raises Mistake."""
    try:
        return _run(given)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("numba", "matplotlib"):
            raise
        raise Mistake("replay needs the simulator: pip install 'tandem-inference[sim]'") from None


def _run(given: argparse.Namespace) -> int:
    from tandem_autoscaler.cli.replay import (
        document,
        manifest,
        play,
        plot,
        recommendation,
        report,
        requests,
        worker,
    )

    wish = manifest.read(given.filename)
    play.check(given.policies)
    found = worker.of(wish, given.hardware)
    trace = requests.load(
        given.trace, wish.service, seed=given.seed, scale=given.scale, duration_seconds=given.duration
    )
    stage = play.Stage.of(wish, found, trace, cold_start_seconds=given.cold_start, seed=given.seed)
    results = {name: play.play(stage, name) for name in report.progress(given.policies)}
    advice = recommendation.recommend(stage, results.get(play.OURS))
    if given.plot is not None:
        plot.draw(stage, results, given.plot)
    if given.output == "table":
        report.print_report(stage, results, advice, plot=given.plot)
    else:
        print(document.text(stage, results, advice, given.output), end="")
    return 0
