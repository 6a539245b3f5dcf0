"""The flags of `kubectl tandem status`, and its steps. It only reads."""

import argparse
import time

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD
from tandem_autoscaler.cli import cluster, output
from tandem_autoscaler.cli.status.document import document
from tandem_autoscaler.cli.status.report import print_list, print_one
from tandem_autoscaler.cli.view import service_view, worker_views

_EXAMPLES = """\
examples:
  kubectl tandem status              all services of the namespace
  kubectl tandem status -A           of all namespaces
  kubectl tandem status chat -n ml   one of them, with its pods and conditions
"""


def add(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand to the program."""
    flags = subcommands.add_parser(
        "status",
        help="what serves, and whether the promises are kept",
        description="Workers, promises and conditions of one InferenceService, or a line for each.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    flags.add_argument("name", nargs="?", metavar="NAME", help="of an InferenceService; default: all")
    cluster.add_flags(flags, all_namespaces=True)
    flags.add_argument("-o", "--output", choices=output.FORMS, default="table")
    flags.set_defaults(run=run)


def run(flags: argparse.Namespace) -> int:
    """Raises Mistake."""

    async def one(reached: cluster.Reached) -> int:
        namespace = reached.one_namespace
        view = service_view(await cluster.service_named(reached.cluster, namespace, flags.name))
        selector = names.selector({names.LABEL_SERVICE: view.name})
        pods = worker_views(await reached.cluster.list(POD, namespace=namespace, selector=selector))
        if flags.output == "table":
            print_one(view, pods, now_seconds=time.time())
        else:
            output.print_document(document(view, pods), flags.output)
        return 0

    async def every(reached: cluster.Reached) -> int:
        found = await reached.cluster.list(INFERENCE_SERVICE, namespace=reached.namespace)
        views = sorted((service_view(item) for item in found), key=lambda view: (view.namespace, view.name))
        if flags.output == "table":
            print_list(views, namespace=reached.namespace, now_seconds=time.time())
        else:
            output.print_document([document(view) for view in views], flags.output)
        return 0

    if flags.name is not None and flags.all_namespaces:
        flags.all_namespaces = False
    return cluster.run(flags, every if flags.name is None else one)
