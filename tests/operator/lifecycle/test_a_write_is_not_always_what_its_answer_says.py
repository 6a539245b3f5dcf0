"""Single stories on the way between the operator and the API server: lost answers, late writes, old views."""

from collections.abc import Iterator
from typing import Any

import pytest

from tandem_api.kubernetes.cluster import POD
from tests.operator.lifecycle.scene import Scene


@pytest.fixture
def play() -> Iterator[Any]:
    """Makes scenes, and ends each as every life must end."""
    scenes: list[Scene] = []

    def begin(**wish: Any) -> Scene:
        scene = Scene(**wish)
        scene.rounds(8)
        scene.operator.connection.aim = POD
        scenes.append(scene)
        return scene

    yield begin
    for scene in scenes:
        if scene.promises.broken is None:
            scene.come_to_rest()
        scene.close()


def is_ending(scene: Scene, name: str) -> bool:
    pod = scene.server.get(POD, name)
    return pod is None or "deletionTimestamp" in pod["metadata"]


def test_a_worker_that_was_made_without_an_answer_is_not_made_again_under_another_name(play: Any) -> None:
    """Its event is lost too, and meanwhile a lower name gets free."""
    scene = play()
    scene.scale("workers", 2)
    scene.operator.hear_everything()
    scene.pass_time(1.0)
    scene.operator.connection.troubles.append("answer lost")
    scene.operator.work()
    assert scene.names() == ["chat-0", "chat-1"]
    scene.operator.miss("pods", 9)
    scene.server.remove(POD, "chat-0")
    scene.scale("workers", 1)
    scene.operator.hear_everything()
    for _ in range(4):
        scene.pass_time(3.0)
        scene.operator.work()
        assert scene.names() == ["chat-1"]


def test_a_worker_that_has_just_begun_to_serve_is_not_deleted_as_one_that_never_did(play: Any) -> None:
    scene = play()
    scene.scale("workers", 2)
    scene.operator.hear_everything()
    scene.pass_time(1.0)
    scene.operator.work()
    scene.operator.hear_everything()
    for _ in range(4):
        scene.nodes.advance(scene.server.get(POD, "chat-1"))
    scene.traffic.note()
    scene.traffic.arrive(scene.server.get(POD, "chat-1"), 3)
    scene.scale("workers", 1)
    scene.operator.hear("workerpools")
    scene.pass_time(1.0)
    scene.operator.work()
    assert not is_ending(scene, "chat-1")


def test_a_late_deletion_by_the_last_leader_does_not_end_a_worker_that_was_taken_back(play: Any) -> None:
    scene = play()
    scene.scale("workers", 2)
    scene.rounds(8)
    scene.scale("workers", 1)
    scene.rounds(2)
    (leaving,) = set(scene.names()) ^ {"chat-0", "chat-1"}
    scene.operator.connection.hold_after = 0
    while not scene.operator.waits_for_an_answer:
        scene.rounds(1)
    scene.hand_over()
    scene.scale("workers", 2)
    scene.rounds(3)
    assert scene.names() == ["chat-0", "chat-1"], "taken back"
    scene.traffic.arrive(scene.server.get(POD, leaving), 3)
    scene.predecessor.answer()
    assert not is_ending(scene, leaving)


def test_a_worker_that_the_last_leader_made_late_is_one_of_those_that_are_asked_for(play: Any) -> None:
    scene = play(gpuBudget=3)
    scene.scale("workers", 2)
    scene.operator.hear_everything()
    scene.pass_time(1.0)
    scene.operator.connection.hold_after = 0
    scene.operator.work()
    assert scene.operator.waits_for_an_answer
    scene.hand_over()
    scene.predecessor.answer()
    scene.rounds(3)
    assert scene.names() == ["chat-0", "chat-1"]
