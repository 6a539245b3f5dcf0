"""The flags of `kubectl tandem explain`, and its steps. It only reads."""

import argparse
import time

from tandem_api.kubernetes.cluster import EVENT
from tandem_autoscaler.cli import cluster, output
from tandem_autoscaler.cli.explain.document import document
from tandem_autoscaler.cli.explain.happened import happened
from tandem_autoscaler.cli.explain.report import print_story
from tandem_autoscaler.cli.view import service_view


def add(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand to the program."""
    flags = subcommands.add_parser(
        "explain",
        help="why each role has the workers that it has",
        description="The last decision of each role with the numbers that it rests on, the decisions before, what "
        "limits them, and the service's events.",
    )
    flags.add_argument("name", metavar="NAME", help="of an InferenceService")
    cluster.add_flags(flags)
    flags.add_argument("-o", "--output", choices=output.FORMS, default="table")
    flags.set_defaults(run=run)


def run(flags: argparse.Namespace) -> int:
    """Raises Mistake."""

    async def explain(reached: cluster.Reached) -> int:
        namespace = reached.one_namespace
        view = service_view(await cluster.service_named(reached.cluster, namespace, flags.name))
        events = happened(await reached.cluster.list(EVENT, namespace=namespace), view)
        if flags.output == "table":
            print_story(view, events, now_seconds=time.time())
        else:
            output.print_document(document(view, events), flags.output)
        return 0

    return cluster.run(flags, explain)
