"""`kubectl tandem pause` and `resume`: the autoscaler decides nothing for a service while it is paused."""

import argparse

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE
from tandem_autoscaler.cli import cluster
from tandem_autoscaler.cli.flags import Commands, Parser, command
from tandem_autoscaler.fleet.observe import is_paused

_MANAGER = "kubectl-tandem"


def add(commands: "Commands[Parser]") -> None:
    """Add both subcommands to the program."""
    for word, paused, text in (
        ("pause", True, "let the pools of a service stay as they are"),
        ("resume", False, "let the autoscaler size a paused service again"),
    ):
        description = f"{text.capitalize()}: the annotation {names.ANNOTATION_PAUSED}."
        flags = command(commands, word, summary=text, description=description, run=run, paused=paused)
        cluster.add_name(flags)
        cluster.add_command_flags(flags)


def run(flags: argparse.Namespace) -> int:
    """Raises Mistake."""

    async def act(reached: cluster.Reached) -> int:
        namespace = reached.one_namespace
        found = await cluster.service_named(reached.cluster, namespace, flags.name)
        was = is_paused(found["metadata"])
        if was == flags.paused:
            print(f"{flags.name} was {'paused' if was else 'not paused'} already")
            return 0
        merge = {"metadata": {"annotations": {names.ANNOTATION_PAUSED: "true" if flags.paused else None}}}
        await reached.cluster.patch(INFERENCE_SERVICE, namespace, flags.name, merge, manager=_MANAGER)
        mode = (found.get("spec") or {}).get("autoscaling", {}).get("mode", "Auto")
        if flags.paused:
            print(
                f"{flags.name} is paused: its pools stay as they are until `kubectl tandem resume {flags.name}`"
            )
        elif mode in ("Auto", "Recommend"):
            print(f"{flags.name} is sized again, after a quiet time of autoscaling.scaleDown.confirm")
        else:
            print(
                f"{flags.name} is not paused any more; autoscaling.mode is {mode}, so Tandem does not size it"
            )
        return 0

    return cluster.run(flags, act)
