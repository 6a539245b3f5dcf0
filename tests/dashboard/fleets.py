"""The fleets of the tests and of the pictures in docs/: recorded and made loads, sized by the autoscaler itself."""

from tandem_autoscaler.simulator.traces import named
from tests.dashboard.simulated_world import World

MINUTES = 30
GPU_BUDGET = 24


def fleets() -> World:
    """Half an hour of them."""
    return peopled(World(gpu_budget=GPU_BUDGET), minutes=MINUTES)


def peopled(world: World, *, minutes: float) -> World:
    """A load that grows fourfold, a recorded one on a budget, one that is only advised, an idle one, one
    without pools yet, one that cannot be understood; with half an hour of load to spare."""
    span = 60.0 * (minutes + 30)
    world.add("chat", named("step-x4", 1, 0.55, span), namespace="prod", prefill=1, decode=1)
    world.add(
        "assistant",
        named("azure-conv-2023", 1, 4.0, span),
        namespace="prod",
        prefill=2,
        decode=1,
        gpuBudget=6,
    )
    world.add(
        "code", named("azure-code-2023", 1, 4.0, span), namespace="prod", prefill=2, decode=1,
        autoscaling={"mode": "Recommend"},
    )  # fmt: skip
    world.add("night", named("idle-spike", 1, 1.0, 60.0), namespace="batch", prefill=1, decode=1)
    world.add("draft", namespace="batch", slo={"ttft": "soon", "tpot": "40ms"})
    world.add("fresh", namespace="batch")
    return world
