"""The periodic list (field case D11), and the wait for kinds that are not there yet."""

import asyncio
import contextlib
import logging
from typing import Any, cast

import pytest

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, Cluster, Kind, Manifest, Missing, Unavailable
from tandem_operator.watch.informer import settings
from tandem_operator.watch.kinds import WATCHED
from tandem_operator.watch.resync import keep_in_step, wait_for_kinds
from tandem_operator.watch.world import World


class ListsOnly:
    """An API server whose watches say nothing: only lists tell."""

    def __init__(self) -> None:
        self.objects: dict[Kind, list[Manifest]] = {}
        self.missing: set[Kind] = set()
        self.down = False
        self.asked = 0
        self.asked_five_times = asyncio.Event()

    async def list(self, kind: Kind, *, namespace: str | None = None, selector: str | None = None) -> Any:
        self.asked += 1
        if self.asked == 5:
            self.asked_five_times.set()
        if self.down:
            raise Unavailable("the API server cannot be reached")
        if kind in self.missing:
            raise Missing("the server could not find the requested resource")
        return [dict(item, metadata=dict(item["metadata"])) for item in self.objects.get(kind, [])]


def service(version: int) -> Manifest:
    return {
        "kind": names.INFERENCE_SERVICE,
        "metadata": {"name": "chat", "namespace": "team", "uid": "s", "resourceVersion": str(version)},
    }


async def test_a_change_that_no_watch_told_is_looked_at_within_the_period() -> None:
    server, world = ListsOnly(), World()
    world.put(INFERENCE_SERVICE, service(1))
    server.objects[INFERENCE_SERVICE] = [service(2)]
    looked_at = asyncio.Event()
    keeping = asyncio.create_task(
        keep_in_step(
            cast(Cluster, server), world, lambda key: looked_at.set(), namespace=None, interval_seconds=0.01
        )
    )
    await asyncio.wait_for(looked_at.wait(), 5)
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
    assert world.service(("team", "chat")) == service(2)


async def test_an_outage_does_not_end_the_periodic_list() -> None:
    server, world = ListsOnly(), World()
    server.down = True
    server.objects[INFERENCE_SERVICE] = [service(2)]
    looked_at = asyncio.Event()
    keeping = asyncio.create_task(
        keep_in_step(
            cast(Cluster, server), world, lambda key: looked_at.set(), namespace=None, interval_seconds=0.01
        )
    )
    await asyncio.wait_for(server.asked_five_times.wait(), 5)
    server.down = False
    await asyncio.wait_for(looked_at.wait(), 5)
    keeping.cancel()


async def test_missing_crds_are_named_once_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    server = ListsOnly()
    server.missing = {INFERENCE_SERVICE}
    with caplog.at_level(logging.WARNING):
        waiting = asyncio.create_task(
            wait_for_kinds(cast(Cluster, server), namespace=None, retry_seconds=0.001)
        )
        await asyncio.wait_for(server.asked_five_times.wait(), 5)
        assert not waiting.done()
        server.missing.clear()
        await asyncio.wait_for(waiting, 5)
    assert len(caplog.messages) == 1
    assert "install Tandem's CRDs" in caplog.messages[0]


def test_every_watch_ends_by_itself_and_selects_at_the_server() -> None:
    chosen = settings()
    assert chosen.watching.server_timeout and chosen.watching.client_timeout
    assert chosen.watching.client_timeout > chosen.watching.server_timeout
    # No event, no peer and no scan of the cluster: kopf is an informer here.
    assert not chosen.posting.enabled
    assert chosen.scanning.disabled
    assert len(chosen.watching.label_selectors) == sum(1 for selector in WATCHED.values() if selector)
