"""No write lands after another may lead (field case D17): what was begun in time has ended in time, on both sides."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tandem_api.kubernetes import client, lease
from tandem_api.kubernetes.client import ApiServer, connect
from tandem_api.kubernetes.cluster import POD, Unavailable
from tandem_api.kubernetes.lease import Leadership

POD_MANIFEST = {"metadata": {"name": "chat-0", "namespace": "team"}}


def candidate(**times: float) -> Leadership:
    return Leadership(None, namespace="a", name="b", identity="c", **times)  # type: ignore[arg-type]


def test_the_last_write_of_one_leader_ends_before_the_next_may_begin() -> None:
    assert lease.RENEW_DEADLINE_SECONDS + lease.WRITE_SECONDS < lease.DURATION_SECONDS
    # Two renewals may fail before leadership is given up.
    assert 3 * lease.RETRY_SECONDS <= lease.RENEW_DEADLINE_SECONDS
    candidate()


@pytest.mark.parametrize(
    "times",
    [{"write_seconds": 8.0}, {"renew_deadline_seconds": 14.0}, {"duration_seconds": 18.0}],
    ids=str,
)
def test_times_that_would_let_a_late_write_land_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="two could lead at once"):
        candidate(**times)


@pytest.fixture
async def silent_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[ApiServer, list[web.Request]]]:
    """An API server that takes requests and never answers."""
    heard: list[web.Request] = []

    async def never(request: web.Request) -> web.StreamResponse:
        heard.append(request)
        await asyncio.sleep(60)
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", never)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "here", "user": {"token": "x"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    }  # fmt: skip
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with connect() as server:
        yield server, heard
    await runner.cleanup()


WRITES: dict[str, Callable[[ApiServer], Awaitable[Any]]] = {
    "create": lambda server: server.create(POD, POD_MANIFEST, manager="m"),
    "apply": lambda server: server.apply(POD, POD_MANIFEST, manager="m"),
    "patch": lambda server: server.patch(POD, "team", "chat-0", {}, manager="m"),
    "delete": lambda server: server.delete(POD, "team", "chat-0", uid="u"),
}


@pytest.mark.parametrize("verb", WRITES)
async def test_every_write_is_given_up_in_time_here_and_on_the_server(
    silent_server: tuple[ApiServer, list[web.Request]], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    server, heard = silent_server
    monkeypatch.setattr(client, "WRITE_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await WRITES[verb](server)
    assert 0.4 < time.monotonic() - began < 3
    # The server gives a request up after its own `timeout` parameter, and takes a minute without one.
    assert [request.query.get("timeout") for request in heard] == ["0.5s"]
    assert len(heard) == 1, "given up, and not sent again by the client library"


async def test_a_read_may_take_longer_for_it_changes_nothing(
    silent_server: tuple[ApiServer, list[web.Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, heard = silent_server
    monkeypatch.setattr(client, "WRITE_SECONDS", 0.1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await server.get(POD, "team", "chat-0")
    assert "timeout" not in heard[0].query
