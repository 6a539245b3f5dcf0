"""The flags of `kubectl tandem status`, and its steps. It only reads."""

import argparse
import time

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD
from tandem_autoscaler.cli import cluster, flags, output
from tandem_autoscaler.cli.status.document import document
from tandem_autoscaler.cli.status.report import print_list, print_one
from tandem_autoscaler.cli.view import service_view, worker_views

_EXAMPLES = """\
  kubectl tandem status              all services of the namespace
  kubectl tandem status -A           of all namespaces
  kubectl tandem status chat -n ml   one of them, with its pods and conditions
"""


def add(commands: "flags.Commands[flags.Parser]") -> None:
    """Add the subcommand to the program."""
    made = flags.command(
        commands,
        "status",
        summary="what serves, and whether the promises are kept",
        description="Workers, promises and conditions of one InferenceService, or a line for each.",
        run=run,
        examples=_EXAMPLES,
    )
    cluster.add_name(made, or_all=True)
    cluster.add_command_flags(made, all_namespaces=True)
    flags.output(made)


def run(given: argparse.Namespace) -> int:
    """Raises Mistake."""

    async def one(reached: cluster.Reached) -> int:
        namespace = reached.one_namespace
        view = service_view(await cluster.service_named(reached.cluster, namespace, given.name))
        selector = names.selector({names.LABEL_SERVICE: view.name})
        pods = worker_views(await reached.cluster.list(POD, namespace=namespace, selector=selector))
        if given.output == "table":
            print_one(view, pods, now_seconds=time.time())
        else:
            output.print_document(document(view, pods), given.output)
        return 0

    async def every(reached: cluster.Reached) -> int:
        found = await reached.cluster.list(INFERENCE_SERVICE, namespace=reached.namespace)
        views = sorted((service_view(item) for item in found), key=lambda view: (view.namespace, view.name))
        if given.output == "table":
            print_list(views, namespace=reached.namespace, now_seconds=time.time())
        else:
            output.print_document([document(view) for view in views], given.output)
        return 0

    if given.name is not None and given.all_namespaces:
        given.all_namespaces = False
    return cluster.run(given, every if given.name is None else one)
