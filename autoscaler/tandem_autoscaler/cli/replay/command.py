"""The flags of `kubectl tandem replay`, and its steps."""

import argparse
from pathlib import Path
from typing import Any

from tandem_api.durations import parse_seconds
from tandem_autoscaler.cli.mistake import Mistake

POLICIES = ("tandem", "constant_headroom", "hpa", "static")
_MOST_SCALE = 1000.0
_EXAMPLES = """\
examples:
  kubectl tandem replay -f chat.yaml --trace azure-conv-2023
  kubectl tandem replay -f chat.yaml --trace requests.csv --scale 2 --plot replay.png
  kubectl tandem replay -f chat.yaml --trace 'prometheus:http://localhost:9090?range=6h' -o json
"""


def add(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand to the program."""
    flags = subcommands.add_parser(
        "replay",
        help="simulate a manifest on a trace, without a cluster",
        description="Simulates the workers of an InferenceService on a trace of requests, sized by Tandem and by "
        "others, and recommends minReplicas and maxReplicas. Needs no cluster and no GPU.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    flags.add_argument("-f", "--filename", required=True, metavar="FILE", help="the manifest; - is stdin")
    flags.add_argument(
        "--trace", required=True, metavar="TRACE",
        help="a name (azure-conv-2023, ...), a CSV file of timestamp, prompt and output tokens, or "
        "prometheus:URL[?range=1h&end=TIME&namespace=NAME&match=SELECTOR]",
    )  # fmt: skip
    flags.add_argument(
        "--hardware", metavar="NAME",
        help="one worker's times, such as h100-llama-8b; default: by the manifest's model and node selector",
    )  # fmt: skip
    flags.add_argument(
        "--cold-start", type=_seconds, metavar="TIME",
        help="from decision to serving; default: spec.autoscaling.coldStart, or else 40s",
    )  # fmt: skip
    flags.add_argument("--scale", type=_scale, metavar="FACTOR", help="so many times the trace's requests")
    flags.add_argument(
        "--duration", type=_seconds, metavar="TIME", help="only the trace's first part, such as 30m"
    )
    flags.add_argument("--seed", type=int, default=1, help="of all that is random (default 1)")
    flags.add_argument(
        "--policies", type=_names, default=POLICIES, metavar="NAME,...", help=f"default {','.join(POLICIES)}"
    )
    flags.add_argument("--plot", type=Path, metavar="FILE.png", help="draw load and replicas over time")
    flags.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    flags.set_defaults(run=run)


def run(flags: argparse.Namespace) -> int:
    """Raises Mistake."""
    try:
        return _run(flags)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("numba", "matplotlib"):
            raise
        raise Mistake("replay needs the simulator: pip install 'tandem-inference[sim]'") from None


def _run(flags: argparse.Namespace) -> int:
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

    wish = manifest.read(flags.filename)
    play.check(flags.policies)
    found = worker.of(wish, flags.hardware)
    trace = requests.load(
        flags.trace, wish.service, seed=flags.seed, scale=flags.scale, duration_seconds=flags.duration
    )
    stage = play.Stage.of(wish, found, trace, cold_start_seconds=flags.cold_start, seed=flags.seed)
    results = {name: play.play(stage, name) for name in report.progress(flags.policies)}
    advice = recommendation.recommend(stage, results.get(play.OURS))
    if flags.plot is not None:
        plot.draw(stage, results, flags.plot)
    if flags.output == "table":
        report.print_report(stage, results, advice, plot=flags.plot)
    else:
        print(document.text(stage, results, advice, flags.output), end="")
    return 0


def _seconds(text: str) -> float:
    try:
        value = float(text) if _is_number(text) else parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 < value <= 31 * 86400.0:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 31 days")
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _scale(text: str) -> float:
    if not _is_number(text) or not 0 < float(text) <= _MOST_SCALE:
        raise argparse.ArgumentTypeError(f"{text} is no factor above 0, {_MOST_SCALE:g} at most")
    return float(text)


def _names(text: str) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
