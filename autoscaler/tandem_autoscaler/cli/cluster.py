"""The user's cluster: the flags that kubectl has for it, and every refusal of it as one line."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, ApiError, Cluster, Manifest, Missing, Rejected
from tandem_autoscaler.cli.mistake import Mistake

if TYPE_CHECKING:
    from tandem_api.kubernetes.client import ApiServer

_AGENT = "kubectl-tandem"


@dataclass(frozen=True)
class Reached:
    """`namespace` None: all of them."""

    cluster: "ApiServer"
    namespace: str | None

    @property
    def one_namespace(self) -> str:
        """For commands about one service."""
        return self.namespace or "default"


def add_flags(flags: argparse.ArgumentParser, *, all_namespaces: bool = False) -> None:
    """`--kubeconfig`, `--context`, `-n` and, where asked for, `-A`."""
    flags.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or else ~/.kube/config")
    flags.add_argument("--context", metavar="NAME", help="of the kubeconfig; default: its current one")
    flags.add_argument(
        "-n", "--namespace", metavar="NAME", help="default: the context's own, or else default"
    )
    if all_namespaces:
        flags.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")


def run(flags: argparse.Namespace, act: Callable[[Reached], Awaitable[int]]) -> int:
    """The exit status of `act`, with the cluster that the flags name. Raises Mistake."""
    # The client takes most of a second to import, which commands without a cluster need not wait for.
    from tandem_api.kubernetes.client import NoCluster

    _choose_kubeconfig(flags.kubeconfig)
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
    paths = [os.path.expanduser(path) for path in (named or "~/.kube/config").split(os.pathsep) if path]
    if not any(os.path.exists(path) for path in paths):
        raise Mistake(
            f"there is no kubeconfig at {os.pathsep.join(paths)}: --kubeconfig or $KUBECONFIG names one"
        )


async def _run(flags: argparse.Namespace, act: Callable[[Reached], Awaitable[int]]) -> int:
    from tandem_api.kubernetes.client import connect

    async with connect(context=flags.context, user_agent=_AGENT) as cluster:
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
    there = f"there are {', '.join(others[:8])}" if others else "there is none in it"
    raise Mistake(f"there is no InferenceService {name} in namespace {namespace}; {there}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
