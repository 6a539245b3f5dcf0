"""ALGORITHM 4.10 and 7c: prefill gives one up at once when decode lacks one and the roles are interchangeable."""

from dataclasses import replace
from typing import Any

import pytest

from tandem_api import names
from tandem_autoscaler.decide.decision import Why
from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.fleet.service import Pod, Service
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tandem_autoscaler.signals.window import begin
from tests.autoscaler.scene import D, P, Scene


def decode_short(*, at_least: int = 1, **more: Any) -> Scene:
    """Prefill 4 is far too many, decode 1 is too few; nothing is carried out."""
    scene = Scene(**{"prefill": 4, "decode": 1, "flips": True, "confirm_seconds": 300.0, **more})
    scene.pool(P, minimum=at_least)
    scene.settle(8, prompts=1.0)
    for _ in range(12):
        scene.prompts(1.0)
        scene.answers(4.0, tokens=100, seconds_per_token=0.2, batch=80)
        scene.tick(apply=False)
        if scene.decision(D).changes:
            return scene
    raise AssertionError("decode never grows")


def test_prefill_shrinks_in_the_tick_in_which_decode_grows() -> None:
    scene = decode_short()
    prefill = scene.decision(P)
    assert (prefill.current, prefill.target, prefill.why) == (4, 3, Why.ROLE_FLIP)
    assert prefill.message == (
        "prefill 4 -> 3: it needs 1, and decode needs one more at once: one changes its role"
    )
    assert scene.decision(D).target > 1


@pytest.mark.parametrize(
    "more",
    [
        {"flips": False},
        {"at_least": 4},
        {"prefill": 1},
    ],
    ids=["other templates", "at the minimum", "the last one"],
)
def test_otherwise_it_takes_its_time(more: dict[str, Any]) -> None:
    assert decode_short(**more).decision(P).why is not Why.ROLE_FLIP


def test_one_at_a_time() -> None:
    scene = decode_short()
    leaving = next(uid for uid, pod in scene.pods.items() if pod.role == P)
    scene.set(leaving, draining=True, ready=False)
    scene.prompts(1.0)
    scene.answers(4.0, tokens=100, seconds_per_token=0.2, batch=80)
    scene.tick(apply=False)
    assert scene.decision(P).why is not Why.ROLE_FLIP


def test_a_prefill_that_is_busy_itself_gives_nothing_up() -> None:
    scene = Scene(prefill=4, decode=1, flips=True)
    for _ in range(20):
        scene.overload(1.2)
        scene.answers(4.0, tokens=100, seconds_per_token=0.2, batch=80)
        scene.tick(apply=False)
        assert scene.decision(P).target >= 4


def pod(role: str, template: str) -> dict[str, Any]:
    labels = {
        names.LABEL_SERVICE: "chat", names.LABEL_ROLE: role, names.LABEL_COMPONENT: names.COMPONENT_WORKER,
        names.LABEL_SERVING: "true", names.LABEL_TEMPLATE_HASH: template,
    }  # fmt: skip
    return {"metadata": {"name": f"chat-{role}-{template}", "uid": f"{role}{template}", "labels": labels}}


@pytest.mark.parametrize(
    ("pods", "interchangeable"),
    [
        ([pod(P, "a"), pod(D, "a")], True),
        ([pod(P, "a"), pod(D, "b")], False),
        ([pod(P, "a"), pod(P, "b"), pod(D, "a")], False),
        ([pod(P, "a")], False),
        ([pod(P, ""), pod(D, "")], False),
    ],
    ids=["one template", "two", "while one rolls out", "nobody there", "unlabelled"],
)
def test_roles_are_interchangeable_when_all_their_workers_have_one_template(
    pods: list[dict[str, Any]], interchangeable: bool
) -> None:
    service = {
        "metadata": {"name": "chat", "uid": "u", "generation": 1},
        "spec": {"mode": "Disaggregated", "model": {"uri": "hf://a/b"}, "prefill": {}, "decode": {}},
    }
    (found,), broken = observe([service], [], pods)
    assert not broken
    assert found.flips is interchangeable


def test_a_worker_that_changed_its_role_leaves_its_past_in_the_old_one() -> None:
    """Ten prompts a second before; afterwards it answers two requests a second, and no prompt is its doing."""

    def at(tick: int, role: str, finished: float) -> tuple[Service, Snapshot]:
        worker = Pod("n", "a", "a", "10.0.0.1", role, True, 0.0, 0.0)
        other = replace(worker, name="b", uid="b", role=P)
        now = 1000.0 + 5 * tick
        readings = {
            uid: PodReading(uid, now, {"finished_total": value}, {"running": 0.0, "waiting": 0.0}, {})
            for uid, value in (("a", finished), ("b", 5.0 * tick))
        }
        return Service("n", "s", "u", 1, "Auto", False, True, None, {}, (worker, other)), Snapshot(
            now, readings
        )

    history, finished = begin(1000.0), 0.0
    for tick in range(60):
        finished += 50 if tick < 20 else 10
        history = history.advance(*at(tick, P if tick < 20 else D, finished))
        if tick > 21:
            assert history.rates(D, 60).rate("finished_total") == pytest.approx(2.0, rel=0.1)
    assert history.rates(P, 60).rate("finished_total") == pytest.approx(1.0, rel=0.1)
