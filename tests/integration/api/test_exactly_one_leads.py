"""The Lease on a real API server: one writer at any time, a quick and safe change of hands."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from e2e.cluster import LightCluster
from tandem_api.kubernetes.client import ApiServer, connect
from tandem_api.kubernetes.cluster import LEASE, Unavailable
from tandem_api.kubernetes.lease import Leadership

pytestmark = pytest.mark.integration


@pytest.fixture
async def server(cluster: LightCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    async with connect() as api_server:
        yield api_server


@pytest.fixture
def lease_name() -> Iterator[str]:
    yield f"lease-{uuid.uuid4().hex[:8]}"


class Breakable:
    """The real API server behind a cable that can be pulled."""

    def __init__(self, server: ApiServer) -> None:
        self._server, self.broken = server, False

    def __getattr__(self, name: str) -> Any:
        if self.broken:
            raise Unavailable("the cable is pulled")
        return getattr(self._server, name)


def candidate(cluster: Any, name: str, identity: str) -> Leadership:
    return Leadership(
        cluster, namespace="default", name=name, identity=identity,
        duration_seconds=2.0, renew_deadline_seconds=1.0, retry_seconds=0.2, write_seconds=0.5,
    )  # fmt: skip


async def test_the_first_leads_and_the_second_waits(server: ApiServer, lease_name: str) -> None:
    first, second = candidate(server, lease_name, "first"), candidate(server, lease_name, "second")
    await asyncio.wait_for(first.acquire(), 5)
    holding = asyncio.create_task(first.hold())
    with pytest.raises(TimeoutError):
        # Longer than the lease lasts: only renewals keep the second out.
        await asyncio.wait_for(second.acquire(), 3)
    assert first.leading and not second.leading
    holding.cancel()


async def test_a_released_lease_changes_hands_at_once(server: ApiServer, lease_name: str) -> None:
    first, second = candidate(server, lease_name, "first"), candidate(server, lease_name, "second")
    await first.acquire()
    await first.release()
    assert not first.leading
    await asyncio.wait_for(second.acquire(), 1)
    lease = await server.get(LEASE, "default", lease_name)
    assert lease is not None and lease["spec"]["holderIdentity"] == "second"
    assert lease["spec"]["leaseTransitions"] == 2


async def test_a_dead_holder_is_succeeded_after_the_lease_and_not_before(
    server: ApiServer, lease_name: str
) -> None:
    first, second = candidate(server, lease_name, "first"), candidate(server, lease_name, "second")
    await first.acquire()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.wait_for(second.acquire(), 10)
    assert loop.time() - began >= 2.0
    assert not first.leading, "it must have stopped writing before the second began"


async def test_a_holder_that_cannot_reach_the_server_stops_before_another_may_start(
    server: ApiServer, lease_name: str
) -> None:
    cable = Breakable(server)
    first, second = candidate(cable, lease_name, "first"), candidate(server, lease_name, "second")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    cable.broken = True
    both = []

    async def watch() -> None:
        while True:
            both.append(first.leading and second.leading)
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    await asyncio.wait_for(second.acquire(), 10)
    await asyncio.wait_for(holding, 1)
    watching.cancel()
    assert both and not any(both)


async def test_many_candidates_at_once_leave_one_leader(server: ApiServer, lease_name: str) -> None:
    crowd = [candidate(server, lease_name, f"candidate-{number}") for number in range(8)]
    racing = [asyncio.create_task(one.acquire()) for one in crowd]
    await asyncio.wait(racing, timeout=1, return_when=asyncio.FIRST_COMPLETED)
    assert sum(one.leading for one in crowd) == 1
    for task in racing:
        task.cancel()


def test_deadlines_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match="two could lead"):
        Leadership(None, namespace="a", name="b", identity="c", renew_deadline_seconds=20)  # type: ignore[arg-type]
