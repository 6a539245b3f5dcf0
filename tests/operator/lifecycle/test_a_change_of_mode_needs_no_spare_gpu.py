"""A new mode on a full cluster: the old one gives up what it can spare, and never what it serves with (D7, D9)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tandem_api.kubernetes.cluster import DEPLOYMENT, INFERENCE_SERVICE, POD
from tests.operator.lifecycle.promises import drain_started, is_ending
from tests.operator.lifecycle.scene import ROLES, Scene
from tests.operator.lifecycle.simulated_cluster import Manifest, labels_of
from tests.operator.lifecycle.simulated_nodes import is_routable

OTHER = {"Colocated": "Disaggregated", "Disaggregated": "Colocated"}


@pytest.fixture
def full_cluster() -> Iterator[Any]:
    """Makes scenes in which the workers hold every GPU that there is: of the cluster, or of the budget."""
    scenes: list[Scene] = []

    def begin(counts: dict[str, int], *, limit: str, gpus: int | None = None) -> Scene:
        mode = "Colocated" if "workers" in counts else "Disaggregated"
        total = sum(counts.values()) if gpus is None else gpus
        scene = Scene(mode=mode, gpuBudget=total if limit == "budget" else None)
        scenes.append(scene)
        scene.nodes.gpus = {"node-a": total if limit == "cluster" else 16}
        scene.rounds(3)
        for role, count in counts.items():
            scene.scale(role, count)
        scene.rounds(20)
        assert {role: len(scene.names(role)) for role in counts} == counts
        assert len(serving(scene)) == sum(counts.values())
        return scene

    yield begin
    for scene in scenes:
        scene.close()


def serving(scene: Scene) -> list[Manifest]:
    return [pod for pod in scene.pods() if is_routable(pod)]


def the_router_finds_workers(scene: Scene) -> bool:
    """Whichever way it is turned, each role that it selects has one that serves."""
    router = scene.server.get(DEPLOYMENT, "chat-router")
    assert router is not None
    words = router["spec"]["template"]["spec"]["containers"][0]["args"]
    mode = "Colocated" if "--selector" in words else "Disaggregated"
    return set(ROLES[mode]) <= {labels_of(pod)["tandem.dev/role"] for pod in serving(scene)}


def change_mode(scene: Scene) -> None:
    scene.edit(mode=OTHER[scene.wish["mode"]])


def condition(scene: Scene, type_: str) -> Manifest:
    service = scene.server.get(INFERENCE_SERVICE, "chat")
    assert service is not None
    return next(each for each in service["status"]["conditions"] if each["type"] == type_)


def watch_it_change(scene: Scene, *, seconds: int = 150) -> None:
    """To the end, with the promise checked at each step."""
    wanted = set(ROLES[scene.wish["mode"]])
    for _ in range(seconds):
        scene.rounds(1)
        assert the_router_finds_workers(scene)
        if {labels_of(pod)["tandem.dev/role"] for pod in scene.pods()} == wanted:
            return
    raise AssertionError(f"the change of mode never ends: {condition(scene, 'Ready')}")


@pytest.mark.parametrize("limit", ["cluster", "budget"])
@pytest.mark.parametrize(
    "counts",
    [{"workers": 3}, {"prefill": 2, "decode": 1}, {"prefill": 1, "decode": 2}, {"prefill": 3, "decode": 3}],
    ids=str,
)
def test_what_the_old_mode_can_spare_makes_room(
    full_cluster: Any, counts: dict[str, int], limit: str
) -> None:
    scene = full_cluster(counts, limit=limit)
    change_mode(scene)
    watch_it_change(scene)


@pytest.mark.parametrize("limit", ["cluster", "budget"])
def test_it_goes_one_at_a_time_and_only_as_many_as_are_needed(full_cluster: Any, limit: str) -> None:
    scene = full_cluster({"workers": 3}, limit=limit, gpus=4)
    change_mode(scene)
    most_leaving, fewest_left = 0, 3
    while not {"prefill", "decode"} <= {labels_of(pod)["tandem.dev/role"] for pod in serving(scene)}:
        scene.rounds(1)
        old = [pod for pod in scene.pods() if labels_of(pod)["tandem.dev/role"] == "workers"]
        most_leaving = max(most_leaving, sum(drain_started(pod) is not None or is_ending(pod) for pod in old))
        fewest_left = min(fewest_left, sum(map(is_routable, old)))
    assert (most_leaving, fewest_left) == (1, 2)


@pytest.mark.parametrize("limit", ["cluster", "budget"])
@pytest.mark.parametrize(
    ("counts", "gpus"),
    [({"workers": 1}, 1), ({"workers": 1}, 2), ({"workers": 2}, 2), ({"prefill": 1, "decode": 1}, 2)],
    ids=["1 to 1+1 on 1", "1 to 1+1 on 2", "2 to 1+1 on 2", "1+1 to 1 on 2"],
)
def test_a_change_that_cannot_go_through_without_a_gap_stops_nothing_and_says_what_is_missing(
    full_cluster: Any, counts: dict[str, int], gpus: int, limit: str
) -> None:
    scene = full_cluster(counts, limit=limit, gpus=gpus)
    before = {pod["metadata"]["uid"] for pod in serving(scene)}
    change_mode(scene)
    scene.rounds(60)
    assert before <= {pod["metadata"]["uid"] for pod in serving(scene)}
    assert the_router_finds_workers(scene)
    ready = condition(scene, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ModeChangeBlocked")
    assert "the new mode" in ready["message"] and "GPU" in ready["message"]


def test_the_sentence_names_who_serves_and_how_much_is_missing(full_cluster: Any) -> None:
    scene = full_cluster({"prefill": 1, "decode": 1}, limit="cluster")
    change_mode(scene)
    scene.rounds(30)
    assert condition(scene, "WorkersReady")["message"] == (
        "0 of 1 workers workers serve; the new mode lacks 1 GPU while chat-1 and chat-0 serve in the old one, so "
        "nothing is stopped; free it or raise gpuBudget, or delete chat-1 and chat-0 and accept a gap"
    )


def test_a_gpu_that_gets_free_later_lets_it_go_through(full_cluster: Any) -> None:
    scene = full_cluster({"prefill": 1, "decode": 1}, limit="cluster")
    change_mode(scene)
    scene.rounds(30)
    scene.nodes.gpus["node-a"] += 1
    watch_it_change(scene)


def test_who_accepts_the_gap_deletes_a_worker_and_the_rest_follows(full_cluster: Any) -> None:
    scene = full_cluster({"prefill": 1, "decode": 1}, limit="cluster")
    change_mode(scene)
    scene.rounds(30)
    scene.server.delete(POD, scene.names("prefill")[0])
    scene.rounds(90)
    assert scene.names("workers") and not scene.names("decode")
    assert the_router_finds_workers(scene)


def test_going_back_to_the_old_mode_costs_nothing(full_cluster: Any) -> None:
    scene = full_cluster({"prefill": 1, "decode": 1}, limit="cluster")
    before = {pod["metadata"]["uid"] for pod in serving(scene)}
    change_mode(scene)
    scene.rounds(30)
    change_mode(scene)
    scene.rounds(30)
    assert {pod["metadata"]["uid"] for pod in scene.pods()} == before
    assert condition(scene, "Ready")["reason"] == "AllReady"


def test_an_old_mode_that_does_not_serve_any_more_gives_its_gpus_up(full_cluster: Any) -> None:
    """The change may be the cure: its decode worker crashes, so its prefill worker serves nobody."""
    scene = full_cluster({"prefill": 1, "decode": 1}, limit="cluster")
    change_mode(scene)
    for _ in range(40):
        scene.world_goes_on()
        for name in scene.names("decode"):
            scene.nodes.crash(scene.server.get(POD, name))
        scene.operator.hear_everything()
        scene.operator.work()
        scene.pass_time(1.0)
    assert scene.names("workers") and the_router_finds_workers(scene)


def test_a_slow_scheduler_costs_no_second_worker(full_cluster: Any) -> None:
    """Its word of no room is older than the room that a worker has just made: the last one must stay."""
    scene = full_cluster({"workers": 2}, limit="cluster")
    scene.edit(engine={"maxSequences": 64})
    for second in range(60):
        for pod in scene.pods():
            if (
                pod["spec"].get("nodeName")
                or not (pod.get("status") or {}).get("conditions")
                or second % 3 == 0
            ):
                scene.nodes.advance(pod)
        scene.operator.hear_everything()
        scene.operator.work()
        scene.pass_time(1.0)
        assert len(serving(scene)) >= 1
    assert len(serving(scene)) == 2
    assert len({labels_of(pod)["tandem.dev/template-hash"] for pod in scene.pods()}) == 1
