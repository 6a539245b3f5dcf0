"""The flags of `kubectl tandem explain`, and its steps. It only reads."""

import argparse
import time

from tandem_api.kubernetes.cluster import EVENT
from tandem_autoscaler.cli import cluster, flags, output
from tandem_autoscaler.cli.explain.document import document
from tandem_autoscaler.cli.explain.happened import happened
from tandem_autoscaler.cli.explain.report import print_story
from tandem_autoscaler.cli.view import service_view


def add(commands: "flags.Commands[flags.Parser]") -> None:
    """Add the subcommand to the program."""
    made = flags.command(
        commands,
        "explain",
        summary="why each role has the workers that it has",
        description="The last decision of each role with the numbers that it rests on, the decisions before, what "
        "limits them, and the service's events.",
        run=run,
    )
    cluster.add_name(made)
    cluster.add_command_flags(made)
    flags.output(made)


def run(given: argparse.Namespace) -> int:
    """Raises Mistake."""

    async def explain(reached: cluster.Reached) -> int:
        namespace = reached.one_namespace
        view = service_view(await cluster.service_named(reached.cluster, namespace, given.name))
        events = happened(await reached.cluster.list(EVENT, namespace=namespace), view)
        if given.output == "table":
            print_story(view, events, now_seconds=time.time())
        else:
            output.print_document(document(view, events), given.output)
        return 0

    return cluster.run(given, explain)
