"""The flags of `kubectl tandem diagnose`, and its steps. It only reads."""

import argparse

from rich.console import Console

from tandem_api.durations import parse_seconds
from tandem_autoscaler.cli import cluster, output
from tandem_autoscaler.cli.diagnose.document import document
from tandem_autoscaler.cli.diagnose.report import print_diagnosis
from tandem_autoscaler.cli.diagnose.watch import watch
from tandem_autoscaler.diagnose.diagnosis import diagnose

_MOST_SECONDS = 600.0


def add(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand to the program."""
    flags = subcommands.add_parser(
        "diagnose",
        help="what a service is bound by, and what would help most",
        description="Watches the workers' own metrics for a while, through the API server's pod proxy, and names what "
        "binds: prefill, decode, the KV cache, a queue or a cold start. Fixes come with their predicted effect.",
    )
    flags.add_argument("name", metavar="NAME", help="of an InferenceService")
    flags.add_argument(
        "--for", dest="seconds", type=_seconds, default=30.0, metavar="TIME", help="how long (default 30s)"
    )
    cluster.add_flags(flags)
    flags.add_argument("-o", "--output", choices=output.FORMS, default="table")
    flags.set_defaults(run=run)


def run(flags: argparse.Namespace) -> int:
    """Raises Mistake."""

    async def act(reached: cluster.Reached) -> int:
        console = Console(stderr=True)
        if console.is_terminal:
            with console.status(f"watching {flags.name} for {flags.seconds:g} s"):
                seen = await watch(reached, flags.name, flags.seconds)
        else:
            seen = await watch(reached, flags.name, flags.seconds)
        found = diagnose(seen.facts)
        if flags.output == "table":
            print_diagnosis(seen, found)
        else:
            output.print_document(document(seen, found), flags.output)
        return 0

    return cluster.run(flags, act)


def _seconds(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 < seconds <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {_MOST_SECONDS:g}s")
    return seconds
