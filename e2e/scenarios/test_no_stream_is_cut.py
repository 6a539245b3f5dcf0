"""No stream is ever cut: one service on real vLLM engines, under load, through everything that happens in a year.

Each row of the table is one disturbance: how long it took, how many streams ended meanwhile, and how many of them were
not whole. The rows are written to build/e2e/streams.json.
"""

import asyncio
import os
from typing import Any

import pytest
import yaml

from e2e.demo.__main__ import MANIFEST
from e2e.demo.stage import Stage
from e2e.scenarios.lasting import Lasting, age_at_ready
from tandem_api import names
from tandem_api.kubernetes.client import connect
from tandem_api.kubernetes.cluster import WORKER_POOL

FEWEST_REQUESTS = 500
# From the decision to serving in the new role, when idle; a cold start of the same pod is measured beside it.
FLIP_SECONDS = 5.0


def manifest() -> dict[str, Any]:
    """The demo's service, its pools owned by this test."""
    wish: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    wish["spec"]["autoscaling"] = {"mode": "External"}
    wish["spec"]["prefill"] |= {"minReplicas": 1, "maxReplicas": 3}
    wish["spec"]["decode"] |= {"minReplicas": 1, "maxReplicas": 3}
    return wish


async def flip(service: Lasting) -> float:
    """Prefill has one too many, decode one too few; seconds until it serves in its new role."""
    before = {pod["metadata"]["uid"] for pod in await service.workers()}
    await service.scale(prefill=1, decode=2)

    async def serves() -> bool:
        return len(await service.workers(names.DECODE)) == 2

    took = await service.until(serves, 120, "the worker serves in its new role")
    after = {pod["metadata"]["uid"] for pod in await service.workers()}
    assert after == before, "the same pods, none new"
    return took


async def flip_under_load(service: Lasting) -> str:
    await service.scale(prefill=2)
    await service.settled(300, prefill=2, decode=1)
    return f"serving in the new role after {await flip(service):.1f} s"


async def node_drain(service: Lasting) -> str:
    """A decode worker is evicted while it streams; its successor comes."""
    victim = (await service.workers(names.DECODE))[0]["metadata"]["name"]
    await service.evict(victim)
    await service.settled(300, prefill=1, decode=2)
    return f"{victim} was evicted"


async def shrink_decode(service: Lasting) -> str:
    await service.scale(decode=1)
    await service.settled(180, prefill=1, decode=1)
    return "decode 2 -> 1"


async def shrink_prefill_without_an_operator(service: Lasting) -> str:
    """The operator is killed in the middle of a drain; the next one goes on with it."""
    await service.scale(prefill=2)
    await service.settled(300, prefill=2, decode=1)
    await service.scale(prefill=1)

    async def drains() -> bool:
        found = await service.workers(names.PREFILL, serving=False)
        return any(
            names.ANNOTATION_DRAIN_STARTED in (pod["metadata"].get("annotations") or {}) for pod in found
        )

    await service.until(drains, 30, "one prefill worker drains")
    await service.restart_operator()
    await service.settled(240, prefill=1, decode=1)
    return "prefill 2 -> 1"


async def deletion_by_hand(service: Lasting) -> str:
    victim = (await service.workers(names.DECODE))[0]["metadata"]["name"]
    await service.kubectl("delete", "pod", victim, "-n", service.namespace, "--wait=false")
    await service.settled(300, prefill=1, decode=2)
    await service.scale(decode=1)
    await service.settled(180, prefill=1, decode=1)
    return f"kubectl delete pod {victim}"


async def router_restart(service: Lasting) -> str:
    router = names.router_name(service.name)
    await service.restart(router, service.namespace)
    await service.rolled_out(router, service.namespace)
    await asyncio.sleep(10)
    return ""


async def rollout(service: Lasting) -> str:
    """A new template for both roles, one worker at a time."""
    before = {pod["metadata"]["uid"] for pod in await service.workers()}
    await service.edit({"engine": {"maxSequences": 12}})

    async def replaced() -> bool:
        now = {pod["metadata"]["uid"] for pod in await service.workers()}
        return len(now) == 2 and not now & before

    await service.until(replaced, 420, "both workers are replaced")
    await service.settled(180, prefill=1, decode=1)
    return "engine.maxSequences 16 -> 12"


async def mode_switch(service: Lasting) -> str:
    """Disaggregated -> Colocated; prefill and decode go only when the new workers serve and are routed to."""
    template = manifest()["spec"]["decode"]["template"]
    workers = {"minReplicas": 1, "maxReplicas": 2, "template": template}
    await service.edit({"mode": "Colocated", "workers": workers, "prefill": None, "decode": None})
    await service.settled(420, workers=1)
    return "Disaggregated -> Colocated"


DISTURBANCES = [
    ("node drain", node_drain),
    ("scale-down of decode", shrink_decode),
    ("router restart", router_restart),
    ("flip: prefill 2 -> 1, decode 1 -> 2", flip_under_load),
    ("deletion by hand", deletion_by_hand),
    ("scale-down of prefill, operator restart", shrink_prefill_without_an_operator),
    ("rollout", rollout),
    ("mode switch", mode_switch),
]


@pytest.mark.timeout(2700)
async def test_every_stream_is_whole_whatever_happens(
    stage: Stage, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = manifest()
    os.environ["KUBECONFIG"] = stage.kubeconfig
    async with connect() as cluster:
        service = Lasting(stage, cluster, namespace, wish["metadata"]["name"], wish["spec"]["model"]["name"])
        await service.kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(wish))

        async def has_pools() -> bool:
            return len(await cluster.list(WORKER_POOL, namespace=namespace)) == 2

        await service.until(has_pools, 30, "the pools are made")
        await service.scale(prefill=2)
        await service.settled(600, prefill=2, decode=1)
        await service.find_endpoint()
        cold_start = min(age_at_ready(pod) for pod in await service.workers())
        idle_flip = await flip(service)
        try:
            await service.under_load(DISTURBANCES, FEWEST_REQUESTS)
        finally:
            rows, table = service.report("streams.json")
            with capsys.disabled():
                print(
                    f"\nflip when idle: {idle_flip:.1f} s; a cold start of the same pod: {cold_start:.0f} s"
                )
                print(table)
    assert service.answers.sent >= FEWEST_REQUESTS
    assert [row for row in rows if row["failed_streams"]] == []
    assert sum(row["whole_streams"] for row in rows) == service.answers.sent
    assert idle_flip <= FLIP_SECONDS
