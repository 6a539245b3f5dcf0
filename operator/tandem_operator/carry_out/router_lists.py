"""Takes workers off a router's list."""

import logging
from collections.abc import Iterable

import httpx

from tandem_api import names
from tandem_operator.observe.address import base_url
from tandem_operator.plan.actions import Unlist

_log = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 2.0


async def take_off(http: httpx.AsyncClient, unlists: Iterable[Unlist]) -> None:
    """One after the other. A router that does not answer is asked again at the next look."""
    for unlist in unlists:
        try:
            answer = await http.post(
                f"{base_url(unlist.address, names.ROUTER_PORT)}/remove_worker",
                params={"url": unlist.url},
                timeout=_TIMEOUT_SECONDS,
            )
        except (httpx.HTTPError, OSError) as error:
            _log.info("router %s: %s", unlist.router, error)
            continue
        _log.warning(
            "router %s still listed a worker: %s (HTTP %s)",
            unlist.router,
            unlist.reason,
            answer.status_code,
        )
