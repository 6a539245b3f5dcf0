"""While nothing but numbers moves, the loop looks for news every 15 s; what readers must know is told at once."""

from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import Kind, Manifest, Unavailable
from tandem_api.reasons import Reason
from tandem_autoscaler.loop import STATUS_SECONDS, Entry
from tests.dashboard.simulated_world import TICK_SECONDS, World


class Refusing(World):
    """It may refuse a status."""

    refuses = False

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Any = None
    ) -> Manifest:
        if self.refuses:
            raise Unavailable("the API server cannot be reached")
        return await super().apply(kind, manifest, manager=manager, subresource=subresource)


async def settled(world: World) -> Entry:
    """A service without load whose status has been compared, without news, at this very tick."""
    world.add("chat")
    await world.run(10 * STATUS_SECONDS)
    entry = world.autoscaler.entries[("default", "chat")]
    while entry.compared_at_seconds != world.clock():
        await world.run(TICK_SECONDS)
    assert world.clock() - entry.status_written_at_seconds > STATUS_SECONDS
    return entry


def reasons(world: World) -> dict[str, str]:
    conditions = world.services[("default", "chat")].manifest["status"]["conditions"]
    return {condition["type"]: condition["reason"] for condition in conditions}


async def test_a_service_of_which_there_is_no_news_is_compared_every_15_seconds() -> None:
    world = World()
    entry = await settled(world)
    compared, written = set(), world.autoscaler.counts.status_writes
    for _ in range(24):
        await world.run(TICK_SECONDS)
        compared.add(entry.compared_at_seconds)
    assert len(compared) == 24 * TICK_SECONDS / STATUS_SECONDS + 1
    assert world.autoscaler.counts.status_writes == written


async def test_a_condition_that_changes_is_told_at_the_next_tick() -> None:
    world = World()
    await settled(world)
    metadata = world.services[("default", "chat")].manifest["metadata"]
    metadata["annotations"] = {names.ANNOTATION_PAUSED: "true"}
    await world.run(TICK_SECONDS)
    assert reasons(world)["ScalingActive"] == Reason.SCALING_PAUSED


async def test_a_status_that_could_not_be_written_is_tried_again_at_the_next_tick() -> None:
    world = Refusing()
    await settled(world)
    metadata = world.services[("default", "chat")].manifest["metadata"]
    metadata["annotations"] = {names.ANNOTATION_PAUSED: "true"}
    world.refuses = True
    await world.run(TICK_SECONDS)
    assert reasons(world)["ScalingActive"] != Reason.SCALING_PAUSED
    world.refuses = False
    await world.run(TICK_SECONDS)
    assert reasons(world)["ScalingActive"] == Reason.SCALING_PAUSED
