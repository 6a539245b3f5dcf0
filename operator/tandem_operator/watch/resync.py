"""Full lists of everything watched: once before the first plan, then now and then.

The first makes sure that no plan is made on half a world (a worker not yet heard of would be created twice). The
later ones find what a silent watch has missed (field case D11).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tandem_api.kubernetes.cluster import ApiError, Cluster, Missing, Rejected
from tandem_operator.watch.kinds import OPTIONAL, WATCHED
from tandem_operator.watch.world import ServiceKey, World

_log = logging.getLogger(__name__)


async def list_everything(cluster: Cluster, world: World, *, namespace: str | None) -> set[ServiceKey]:
    """Bring the World up to date; returns the services that learned something. Raises ApiError."""
    changed: set[ServiceKey] = set()
    for kind, selector in WATCHED.items():
        since = world.mark()
        listing = await cluster.list(kind, namespace=namespace, selector=selector)
        changed |= world.replace(kind, listing, since=since)
    for kind, selector in OPTIONAL.items():
        since = world.mark()
        try:
            listing = await cluster.list(kind, namespace=namespace, selector=selector)
        except (Missing, Rejected):
            # Not there, or (403) not for us: whoever asks for one hears of it when it is written.
            listing = []
        changed |= world.replace(kind, listing, since=since)
    return changed


async def wait_for_kinds(cluster: Cluster, *, namespace: str | None, retry_seconds: float = 5.0) -> None:
    """Return once our own kinds are served; says so once while they are not."""
    told = ""
    while True:
        problem = ""
        for kind in WATCHED:
            try:
                await cluster.list(kind, namespace=namespace, selector=WATCHED[kind])
            except Missing:
                problem = f"the API server has no {kind.plural} ({kind.api_version}): install Tandem's CRDs; waiting"
            except ApiError as error:
                problem = f"{kind.plural} cannot be listed: {error}; waiting"
            if problem:
                break
        if not problem:
            return
        if problem != told:
            _log.warning(problem)
            told = problem
        await asyncio.sleep(retry_seconds)


async def keep_in_step(
    cluster: Cluster,
    world: World,
    changed: Callable[[ServiceKey], None],
    *,
    namespace: str | None,
    interval_seconds: float,
    first: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """List everything each interval, for ever; every service gets a look, also when nothing seems new.

    `first` is awaited before each list: what is not listed and those looks need as well.
    """
    while True:
        await asyncio.sleep(interval_seconds)
        if first is not None:
            await first()
        try:
            await list_everything(cluster, world, namespace=namespace)
        except ApiError as error:
            _log.warning("the periodic list failed, the watches go on: %s", error)
            continue
        for key in world.services():
            changed(key)
