"""A pass that wrote looks again by itself: the watch's echo of our own write is no news to the World.

The API server here is a dictionary, because what is tested is a watch that never says a word.
"""

import copy
import itertools
from typing import Any, cast

import httpx

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD, Cluster, Kind, Manifest
from tandem_operator.carry_out.carry_out import CarryOut
from tandem_operator.carry_out.event_writer import EventWriter
from tandem_operator.plan.settings import Settings
from tandem_operator.reconcile import Reconciler
from tandem_operator.watch.world import World
from tests.operator.fleet import START, colocated

KEY = ("team", "chat")


class Dictionary:
    """Just enough of a server: names, uids and rising versions."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Manifest] = {}
        self._versions = itertools.count(1)

    def _store(self, kind: Kind, manifest: Manifest) -> Manifest:
        stored = copy.deepcopy(manifest)
        version = str(next(self._versions))
        stored["metadata"].setdefault("uid", f"uid-{version}")
        stored["metadata"]["resourceVersion"] = version
        self.objects[(kind.plural, stored["metadata"]["name"])] = stored
        return copy.deepcopy(stored)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        return copy.deepcopy(self.objects.get((kind.plural, name)))

    async def create(self, kind: Kind, manifest: Manifest, *, manager: str) -> Manifest:
        return self._store(kind, manifest)

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Any = None
    ) -> Manifest:
        live = self.objects.get((kind.plural, manifest["metadata"]["name"]))
        if subresource == "status":
            assert live is not None
            return self._store(kind, {**live, "status": manifest["status"]})
        return self._store(kind, manifest)

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        merge: Manifest,
        *,
        manager: str,
        subresource: Any = None,
    ) -> Manifest:
        live = copy.deepcopy(self.objects[(kind.plural, name)])
        for field in ("labels", "annotations"):
            for key, value in merge.get("metadata", {}).get(field, {}).items():
                if value is None:
                    live["metadata"].get(field, {}).pop(key, None)
                else:
                    live["metadata"].setdefault(field, {})[key] = value
        live["spec"].update(merge.get("spec", {}))
        return self._store(kind, live)

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        resource_version: Any = None,
        grace_seconds: Any = None,
    ) -> None:
        del self.objects[(kind.plural, name)]


async def test_without_any_event_a_drain_goes_through_to_its_end() -> None:
    server, world, now = Dictionary(), World(), [START]
    cluster = cast(Cluster, server)
    engine = httpx.MockTransport(
        lambda request: httpx.Response(200, text="vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")
    )
    async with httpx.AsyncClient(transport=engine) as http:
        events = EventWriter(cluster, instance="test", clock=lambda: now[0])
        carry_out = CarryOut(cluster, world, events, clock=lambda: now[0])
        reconcile = Reconciler(cluster, world, carry_out, http, settings=Settings(), clock=lambda: now[0])

        async def until_it_rests() -> None:
            for _ in range(60):
                again = await reconcile(KEY)
                if again is None or again > 25:
                    return
                now[0] += again
            raise AssertionError("it never rests")

        service = {
            "kind": names.INFERENCE_SERVICE,
            "metadata": {"name": "chat", "namespace": "team", "uid": "s", "generation": 1},
            "spec": colocated(autoscaling={"mode": "Off"}, workers={"replicas": 2, "maxReplicas": 2}),
        }
        world.put(INFERENCE_SERVICE, await cluster.create(INFERENCE_SERVICE, service, manager="user"))
        await until_it_rests()
        for (plural, _), item in list(server.objects.items()):
            if plural == POD.plural:
                ready = {
                    "phase": "Running",
                    "podIP": "127.0.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
                world.put(POD, server._store(POD, {**item, "status": ready}))
        await until_it_rests()
        assert world.service(KEY)["status"]["summary"] == "2/2"  # type: ignore[index]

        fewer = copy.deepcopy(server.objects[("inferenceservices", "chat")])
        fewer["spec"]["workers"]["replicas"] = 1
        world.put(INFERENCE_SERVICE, server._store(INFERENCE_SERVICE, fewer))
        await until_it_rests()

        assert sum(1 for plural, _ in server.objects if plural == POD.plural) == 1
