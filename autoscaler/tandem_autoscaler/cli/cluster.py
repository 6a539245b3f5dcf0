"""The user's cluster: the flags that kubectl has for it, and every refusal of it as one line."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from tandem_api.kubernetes.cluster import (
    INFERENCE_SERVICE,
    ApiError,
    Cluster,
    Kind,
    Manifest,
    Missing,
    Rejected,
)  # fmt: skip
from tandem_autoscaler.cli.flags import Parser, completes, meant
from tandem_autoscaler.cli.mistake import Mistake

if TYPE_CHECKING:
    from tandem_api.kubernetes.client import ApiServer

_AGENT = "kubectl-tandem"
_COMPLETION_SECONDS = 2.0
NAMESPACE: Final = Kind("v1", "Namespace", "namespaces", namespaced=False)


@dataclass(frozen=True)
class Reached:
    """`namespace` None: all of them."""

    cluster: "ApiServer"
    namespace: str | None

    @property
    def one_namespace(self) -> str:
        """For commands about one service."""
        return self.namespace or "default"


# The flags that name a cluster, by their destination.
_FLAGS = {"kubeconfig": "--kubeconfig", "kube_context": "--context", "namespace": "--namespace"}


def add_flags(flags: Parser) -> None:
    """`--kubeconfig`, `--context` and `-n` for the program itself."""
    _add_flags(flags, default=None)


def add_command_flags(flags: Parser, *, all_namespaces: bool = False) -> None:
    """The same for a command, where they win over what stands before it; and `-A` where asked for."""
    _add_flags(flags, default=argparse.SUPPRESS)
    flags.set_defaults(asks_cluster=True)
    if all_namespaces:
        flags.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")


def _add_flags(flags: Parser, default: str | None) -> None:
    flags.add_argument(
        "--kubeconfig", metavar="FILE", default=default, help="default: $KUBECONFIG, or else ~/.kube/config"
    )
    context = flags.add_argument(
        "--context", metavar="NAME", dest="kube_context", default=default,
        help="of the kubeconfig; default: its current one",
    )  # fmt: skip
    namespace = flags.add_argument(
        "-n", "--namespace", metavar="NAME", default=default, help="default: the context's own, or else default"
    )  # fmt: skip
    completes(flags, context, lambda given: contexts(given.get("kubeconfig")))
    completes(flags, namespace, lambda given: _listed(given, NAMESPACE))


def add_name(flags: Parser, *, or_all: bool = False) -> None:
    """NAME: the InferenceService that the command is about; with `or_all` it may be left out."""
    action = flags.add_argument(
        "name", metavar="NAME", nargs="?" if or_all else None,
        help="of an InferenceService" + ("; default: all" if or_all else ""),
    )  # fmt: skip
    completes(flags, action, lambda given: _listed(given, INFERENCE_SERVICE))


def refuse_flags(flags: argparse.Namespace) -> None:
    """For a command that asks no cluster. Raises Mistake when a flag names one: it would have no effect."""
    for place, flag in _FLAGS.items():
        if getattr(flags, place, None) is not None:
            raise Mistake(f"{flag} names a cluster, and {flags.parser.prog.split()[-1]} asks none")


def contexts(kubeconfig: str | None) -> list[str]:
    """Names of the contexts in the kubeconfig's files; none of a file that cannot be read."""
    found: list[str] = []
    for path in _paths(kubeconfig or os.environ.get("KUBECONFIG")):
        try:
            config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue
        items = config.get("contexts") if isinstance(config, dict) else None
        found += [str(item["name"]) for item in items or [] if isinstance(item, dict) and "name" in item]
    return sorted(set(found))


def _listed(given: Mapping[str, str], kind: Kind) -> list[str]:
    """Names of what there is, for a shell: nothing after two seconds."""
    found: list[str] = []

    async def act(reached: Reached) -> int:
        async with asyncio.timeout(_COMPLETION_SECONDS):
            namespace = reached.namespace if kind.namespaced else None
            found.extend(
                item["metadata"]["name"] for item in await reached.cluster.list(kind, namespace=namespace)
            )
        return 0

    run(argparse.Namespace(**{**dict.fromkeys(_FLAGS), **given}), act)
    return sorted(found)


def run(flags: argparse.Namespace, act: Callable[[Reached], Awaitable[int]]) -> int:
    """The exit status of `act`, with the cluster that the flags name. Raises Mistake."""
    # The client takes most of a second to import, which commands without a cluster need not wait for.
    from tandem_api.kubernetes.client import NoCluster

    _choose_kubeconfig(flags.kubeconfig)
    _check_context(flags.kube_context)
    try:
        return asyncio.run(_run(flags, act))
    except NoCluster as error:
        raise Mistake(f"{error}; --kubeconfig and --context choose another") from None
    except Missing as error:
        raise Mistake(
            f"the cluster knows no InferenceService ({error}): install Tandem with its chart, or choose another "
            "--context"
        ) from None
    except Rejected as error:
        raise Mistake(f"the cluster refuses: {_one_line(error)}") from None
    except ApiError as error:
        raise Mistake(_one_line(error)) from None


def _choose_kubeconfig(given: str | None) -> None:
    if given is not None:
        if not os.path.exists(given):
            raise Mistake(f"--kubeconfig {given}: there is no such file")
        os.environ["KUBECONFIG"] = given
    named = os.environ.get("KUBECONFIG")
    if named is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return
    paths = _paths(named)
    if not any(os.path.exists(path) for path in paths):
        raise Mistake(
            f"there is no kubeconfig at {os.pathsep.join(paths)}: --kubeconfig or $KUBECONFIG names one"
        )


def _paths(named: str | None) -> list[str]:
    return [os.path.expanduser(path) for path in (named or "~/.kube/config").split(os.pathsep) if path]


def _check_context(name: str | None) -> None:
    if name is None:
        return
    known = contexts(None)
    if known and name not in known:
        near = meant(name, known) or f"; there are {', '.join(known[:8])}"
        raise Mistake(f"--context {name}: the kubeconfig has no such context{near}")


async def _run(flags: argparse.Namespace, act: Callable[[Reached], Awaitable[int]]) -> int:
    from tandem_api.kubernetes.client import connect

    async with connect(context=flags.kube_context, user_agent=_AGENT) as cluster:
        everywhere = getattr(flags, "all_namespaces", False)
        namespace = None if everywhere else flags.namespace or cluster.namespace or "default"
        return await act(Reached(cluster, namespace))


async def service_named(cluster: Cluster, namespace: str, name: str) -> Manifest:
    """The InferenceService. Raises Mistake with those that there are, and Missing where the kind itself is unknown."""
    found = await cluster.get(INFERENCE_SERVICE, namespace, name)
    if found is not None:
        return found
    others = sorted(
        item["metadata"]["name"] for item in await cluster.list(INFERENCE_SERVICE, namespace=namespace)
    )
    there = f"; there are {', '.join(others[:8])}" if others else "; there is none in it"
    near = meant(name, others)
    raise Mistake(f"there is no InferenceService {name} in namespace {namespace}{near or there}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
