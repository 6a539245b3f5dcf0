"""Events tell of actions that happened; a namespace that is being deleted is left alone."""

from typing import Any, cast

import httpx
import pytest

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    EVENT,
    INFERENCE_SERVICE,
    POD,
    ApiError,
    Cluster,
    Kind,
    Manifest,
    NamespaceEnding,
    Rejected,
)
from tandem_operator.carry_out.carry_out import CarryOut
from tandem_operator.carry_out.event_writer import EventWriter
from tandem_operator.plan.settings import Settings
from tandem_operator.reconcile import Reconciler
from tandem_operator.watch.world import World
from tests.operator.fleet import START, colocated
from tests.operator.test_our_own_writes_bring_the_next_look import KEY, Dictionary


class Refusing(Dictionary):
    """Refuses new objects of one kind, or of all."""

    def __init__(self, refusal: ApiError, plural: str | None) -> None:
        super().__init__()
        self.refusal, self.plural, self.refused = refusal, plural, 0

    def _refuse(self, kind: Kind) -> None:
        if self.plural in (None, kind.plural) and kind.plural != INFERENCE_SERVICE.plural:
            self.refused += 1
            raise self.refusal

    async def create(self, kind: Kind, manifest: Manifest, *, manager: str) -> Manifest:
        self._refuse(kind)
        return await super().create(kind, manifest, manager=manager)

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Any = None
    ) -> Manifest:
        self._refuse(kind)
        return await super().apply(kind, manifest, manager=manager, subresource=subresource)


async def passes(server: Refusing, count: int) -> list[float | None]:
    """So many looks at one new service; after how long each wants the next."""
    world = World()
    cluster = cast(Cluster, server)
    async with httpx.AsyncClient() as http:
        events = EventWriter(cluster, instance="test", clock=lambda: START)
        carry_out = CarryOut(cluster, world, events, clock=lambda: START)
        reconcile = Reconciler(cluster, world, carry_out, http, settings=Settings(), clock=lambda: START)
        service = {
            "kind": names.INFERENCE_SERVICE,
            "metadata": {"name": "chat", "namespace": "team", "uid": "s", "generation": 1},
            "spec": colocated(autoscaling={"mode": "Off"}, workers={"replicas": 1, "maxReplicas": 1}),
        }
        world.put(INFERENCE_SERVICE, server._store(INFERENCE_SERVICE, service))
        return [await reconcile(KEY) for _ in range(count)]


def told(server: Dictionary) -> list[str]:
    return [item["note"] for (plural, _), item in server.objects.items() if plural == EVENT.plural]


async def test_a_worker_that_was_refused_was_not_created() -> None:
    server = Refusing(Rejected("exceeded quota: gpus", status=403), POD.plural)
    await passes(server, 3)
    assert server.refused
    assert not [note for note in told(server) if "created" in note]
    assert [note for note in told(server) if "exceeded quota" in note], "but the refusal is told"


async def test_a_worker_that_was_accepted_is_told_of_once() -> None:
    server = Refusing(Rejected("never", status=403), "no-such-kind")
    await passes(server, 3)
    assert len([note for note in told(server) if "created chat-0" in note]) == 1


@pytest.mark.parametrize("plural", [None, POD.plural])
async def test_a_namespace_that_is_being_deleted_is_looked_at_seldom_and_told_nothing(
    plural: str | None,
) -> None:
    server = Refusing(NamespaceEnding("namespace team is being terminated", status=403), plural)
    waits = await passes(server, 4)
    assert all(wait is not None and wait >= 10 for wait in waits[-3:]), waits
    assert told(server) == []
