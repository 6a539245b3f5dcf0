"""What each router believes: the workers on its own list, asked of the router itself.

vllm-router follows the pods by a watch, and what it misses while that is cut it never learns: a worker that left or
went meanwhile stays on its list for good (measured with 0.1.17: after a cut of 4 s, for as long as one looked; its
watch begins again after 60 s and tells additions only). So a drain asks the routers, and does not trust the label.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from tandem_api import names
from tandem_operator.observe.address import base_url
from tandem_operator.observe.pod import PodView

_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Routing:
    """One router's list: the address of each worker -> its URL, as the router writes it."""

    router: str
    ip: str
    workers: Mapping[str, str]


async def read_routings(http: httpx.AsyncClient, routers: Iterable[PodView]) -> tuple[Routing, ...]:
    """Of the routers that answer; one that does not, or is of another kind, tells nothing."""
    asked = [pod for pod in routers if pod.ip and pod.started and not pod.finished]
    found = await asyncio.gather(*(_read(http, pod) for pod in asked))
    return tuple(routing for routing in found if routing is not None)


async def _read(http: httpx.AsyncClient, pod: PodView) -> Routing | None:
    router = base_url(str(pod.ip), names.ROUTER_PORT)
    try:
        answer = await http.get(f"{router}/list_workers", timeout=_TIMEOUT_SECONDS)
        if answer.status_code == 404:
            urls: object = list(await worker_ids(http, router))
        else:
            urls = answer.json()["urls"] if answer.status_code == 200 else None
    except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(urls, list):
        return None
    return Routing(pod.name, str(pod.ip), {address: url for url in urls if (address := _address(url))})


async def worker_ids(http: httpx.AsyncClient, router: str) -> dict[str, str]:
    """sglang-router's list: URL -> the id that it is removed by.

    Raises httpx.HTTPError when it does not answer, and ValueError, KeyError or TypeError when the answer is no list.
    """
    answer = await http.get(f"{router}/workers", timeout=_TIMEOUT_SECONDS)
    answer.raise_for_status()
    return {str(worker["url"]): str(worker["id"]) for worker in answer.json()["workers"]}


def _address(url: object) -> str | None:
    try:
        return urlsplit(str(url)).hostname
    except ValueError:
        return None


def listed(pod: PodView, routings: Iterable[Routing]) -> bool:
    """Would any router that answered still send work to this pod?"""
    return pod.ip is not None and any(pod.ip in routing.workers for routing in routings)
