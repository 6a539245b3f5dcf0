"""An operator may be told to stop at any moment of its start: nothing is reported as broken."""

import asyncio
import contextlib
import gc
import logging
from functools import partial

import pytest

from e2e.cluster import LightCluster
from tandem_api import names
from tandem_operator.watch.informer import inform
from tandem_operator.watch.world import World
from tests.integration.waiting import eventually


@pytest.mark.parametrize("milliseconds", [0, 2, 5, 10, 15, 20, 30, 50, 100])
def test_informers_are_stopped_while_they_first_ask_what_the_server_has(
    milliseconds: int,
    cluster: LightCluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    # A new server answers 429 to who first asks for a custom kind.
    for plural in ("inferenceservices", "workerpools"):
        eventually(partial(cluster.api.answers, f"/apis/{names.API_VERSION}/{plural}"))

    async def life() -> None:
        started = asyncio.Event()
        informing = asyncio.create_task(
            inform(World(), lambda key: None, namespace="default", started=started.set)
        )
        await started.wait()
        await asyncio.sleep(milliseconds / 1000)
        informing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await informing

    asyncio.run(life())
    # What failed in a task that nobody waits for is told when the task is collected.
    gc.collect()
    loud = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert loud == []
