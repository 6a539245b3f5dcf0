"""The flags of `kubectl tandem diagnose`, and its steps. It only reads, unless it is told to apply the chunks."""

import argparse
import sys

from rich.console import Console

from tandem_autoscaler.cli import cluster, flags, output
from tandem_autoscaler.cli.diagnose.apply import apply_chunks
from tandem_autoscaler.cli.diagnose.document import document
from tandem_autoscaler.cli.diagnose.report import print_diagnosis
from tandem_autoscaler.cli.diagnose.watch import watch
from tandem_autoscaler.diagnose.diagnosis import diagnose


def add(commands: "flags.Commands[flags.Parser]") -> None:
    """Add the subcommand to the program."""
    made = flags.command(
        commands,
        "diagnose",
        summary="what a service is bound by, and what would help most",
        description="Watches the workers' own metrics for a while, through the API server's pod proxy, and names what "
        "binds: prefill, decode, the KV cache, a queue or a cold start. Fixes come with their predicted effect.",
        run=run,
    )
    cluster.add_name(made)
    made.add_argument(
        "--for", dest="seconds", type=flags.duration(600.0, "10 minutes"), default=30.0, metavar="TIME",
        help="how long (default 30s)",
    )  # fmt: skip
    made.add_argument(
        "--apply-chunks",
        action="store_true",
        help="write the advised engine.chunkedPrefill into the InferenceService (its workers are replaced, one by one)",
    )
    cluster.add_command_flags(made)
    flags.output(made)


def run(given: argparse.Namespace) -> int:
    """Raises Mistake."""

    async def act(reached: cluster.Reached) -> int:
        console = Console(stderr=True)
        if console.is_terminal:
            with console.status(f"watching {given.name} for {given.seconds:g} s"):
                seen = await watch(reached, given.name, given.seconds)
        else:
            seen = await watch(reached, given.name, given.seconds)
        found = diagnose(seen.facts)
        if given.output == "table":
            print_diagnosis(seen, found)
        else:
            output.print_document(document(seen, found), given.output)
        if given.apply_chunks:
            print(await apply_chunks(reached, seen, found), file=sys.stderr)
        return 0

    return cluster.run(given, act)
