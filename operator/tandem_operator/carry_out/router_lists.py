"""Takes workers off a router's list, and puts them on that of a router which does not find out by itself."""

import logging
from collections.abc import Iterable

import httpx

from tandem_api import names
from tandem_operator.observe.address import base_url
from tandem_operator.observe.routing import worker_ids
from tandem_operator.plan.actions import Enlist, Unlist

_log = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 2.0


async def take_off(http: httpx.AsyncClient, unlists: Iterable[Unlist]) -> None:
    """One after the other. A router that does not answer is asked again at the next look."""
    for unlist in unlists:
        try:
            answer = await _remove(http, base_url(unlist.address, names.ROUTER_PORT), unlist.url)
        except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError) as error:
            _log.info("router %s: %s", unlist.router, error)
            continue
        _log.warning(
            "router %s still listed a worker: %s (HTTP %s)",
            unlist.router,
            unlist.reason,
            answer.status_code,
        )


async def _remove(http: httpx.AsyncClient, router: str, url: str) -> httpx.Response:
    answer = await http.post(f"{router}/remove_worker", params={"url": url}, timeout=_TIMEOUT_SECONDS)
    if answer.status_code != 404:
        return answer
    # sglang-router knows its workers by ids of its own.
    worker = (await worker_ids(http, router))[url]
    return await http.delete(f"{router}/workers/{worker}", timeout=_TIMEOUT_SECONDS)


async def put_on(http: httpx.AsyncClient, enlists: Iterable[Enlist]) -> None:
    """The same for workers that serve and are missing; a router that has one already refuses the second."""
    for enlist in enlists:
        router = base_url(enlist.address, names.ROUTER_PORT)
        worker: dict[str, str | int] = {"url": enlist.url, "worker_type": enlist.role}
        if enlist.bootstrap_port is not None:
            worker["bootstrap_port"] = enlist.bootstrap_port
        try:
            answer = await http.post(f"{router}/workers", json=worker, timeout=_TIMEOUT_SECONDS)
        except (httpx.HTTPError, OSError) as error:
            _log.info("router %s: %s", enlist.router, error)
            continue
        _log.info("router %s is told of %s (HTTP %s)", enlist.router, enlist.url, answer.status_code)
