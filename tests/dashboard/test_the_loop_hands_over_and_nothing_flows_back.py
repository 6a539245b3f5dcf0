"""loop -> trail, after each tick. What the trail does with it is no concern of the loop's."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from tandem_autoscaler.dashboard import document
from tandem_autoscaler.dashboard.trail import SPAN_SECONDS, STEP_SECONDS, Kind, Trail
from tandem_autoscaler.decide.decision import Decision, Outcome, Why
from tandem_autoscaler.simulator.traces import named
from tests.dashboard.simulated_world import World

KEY = ("prod", "chat")


def world(**spec: Any) -> World:
    """A load that grows from 5 to 45 prompts a second within five minutes."""
    made = World()
    made.add("chat", named("dynamo-sine", 1, 1.0, 3600.0), namespace="prod", **spec)
    return made


async def test_the_pools_are_sized_alike_with_and_without_someone_looking_on() -> None:
    watched, alone = world(), world()
    alone.autoscaler._watcher = None
    for one in (watched, alone):
        await one.run(400.0)
    assert watched.autoscaler.entries[KEY].outcome == alone.autoscaler.entries[KEY].outcome
    assert watched.trail.stories and not alone.trail.stories


async def test_a_fault_of_whoever_looks_on_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    one = world()

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    one.autoscaler._watcher = broken
    await one.run(10.0)
    assert one.autoscaler.counts.ticks == 2 and one.autoscaler.counts.failed_ticks == 0
    assert "planted" in caplog.text


async def test_what_is_handed_over_cannot_be_changed() -> None:
    one = world()
    await one.run(60.0)
    now = one.trail.stories[KEY].now
    for value in (now, now.service, now.outcome):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.service = None  # type: ignore[misc, assignment, union-attr]


async def test_each_change_is_told_once_with_what_became_of_it() -> None:
    one = world()
    await one.run(400.0)
    written = one.autoscaler.counts.scale_writes
    changes = one.trail.stories[KEY].changes
    assert written > 1 and len(changes) == written
    assert {change.kind for change in changes} == {Kind.DONE}
    assert [change.at_seconds for change in changes] == sorted(
        (change.at_seconds for change in changes), key=lambda at: -(at or 0.0)
    )


async def test_a_recommendation_that_stands_is_one_change() -> None:
    one = world(autoscaling={"mode": "Recommend"})
    await one.run(400.0)
    changes = one.trail.stories[KEY].changes
    assert changes and {change.kind for change in changes} == {Kind.RECOMMENDED}
    of_prefill = [(change.before, change.after) for change in changes if change.role == "prefill"]
    assert all(a != b for a, b in itertools.pairwise(of_prefill))
    assert one.services[KEY].pools == {"prefill": 1, "decode": 1}


async def test_what_the_api_server_refuses_is_told_as_refused() -> None:
    one = world()
    one.refuse_scale = "you shall not"
    await one.run(300.0)
    story = one.trail.stories[KEY]
    assert story.changes and {change.kind for change in story.changes} == {Kind.REFUSED}
    assert story.now.write_failed is not None and "you shall not" in story.now.write_failed
    row = document.service(story, one.clock())
    assert (row["word"], row["tone"]) == ("cannot scale", "bad")


async def test_half_an_hour_is_kept_in_steps_of_a_quarter_minute() -> None:
    one = world()
    await one.run(SPAN_SECONDS + 300.0)
    at = [point.at_seconds for point in one.trail.stories[KEY].points]
    assert {b - a for a, b in itertools.pairwise(at)} == {STEP_SECONDS}
    assert at[-1] - at[0] == SPAN_SECONDS


async def test_a_deleted_service_leaves_nothing_and_one_made_again_shares_nothing() -> None:
    one = world()
    await one.run(120.0)
    gone = one.services.pop(KEY)
    await one.run(5.0)
    assert KEY not in one.trail.stories
    gone.manifest["metadata"]["uid"] = "another"
    one.services[KEY] = gone
    await one.run(10.0)
    assert len(one.trail.stories[KEY].points) == 1


async def test_a_new_process_remembers_the_changes_that_the_status_has() -> None:
    one = world()
    await one.run(400.0)
    before = list(one.trail.stories[KEY].changes)
    one.trail = Trail()
    one.autoscaler._watcher = one.trail.see
    await one.run(5.0)
    told = [(change.role, change.before, change.after, change.reason) for change in before]
    remembered = [(c.role, c.before, c.after, c.reason) for c in one.trail.stories[KEY].changes]
    assert remembered and remembered == told[: len(remembered)]


@pytest.mark.parametrize(
    "status",
    [{"autoscaling": "none"}, {"autoscaling": {"history": 3}}, {"autoscaling": {"history": [1, {"from": "x"}]}},
     {"autoscaling": {"history": [{"from": 1, "to": 2, "at": "soon", "numbers": []}]}}],
    ids=str,
)  # fmt: skip
async def test_a_status_that_someone_else_wrote_is_no_fault(status: Mapping[str, Any]) -> None:
    one = world()
    one.services[KEY].manifest["status"] = dict(status)
    await one.run(5.0)
    assert document.service(one.trail.stories[KEY], one.clock())["name"] == "chat"


async def test_what_is_not_finite_or_not_known_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    one = world()
    await one.run(60.0)
    story = one.trail.stories[KEY]
    odd = Decision("prefill", 1, 2, Why.TTFT_NEED, "prefill 1 -> 2: odd", {"need": float("nan")})
    kept = dataclasses.replace(story.now.outcome.ttft or pytest.fail("no TTFT"), tail_seconds=float("inf"))
    story.now = dataclasses.replace(story.now, outcome=Outcome({"prefill": odd}, kept, None))
    told = document.service(story, one.clock())
    assert told["ttft"]["tailSeconds"] is None and told["tpot"] is None
    (decision,) = told["decisions"]
    assert decision["message"] == "odd" and decision["numbers"][0][1] == "nan workers"


async def test_pods_that_hold_gpus_are_counted_until_they_are_gone() -> None:
    one = world()
    await one.run(300.0)
    fleet = one.services[KEY].fleet
    assert fleet is not None
    pods = [pod for pod in one.trail.stories[KEY].now.service.pods]
    found = document.fleet(one.trail, leading=True, now_seconds=one.clock(), tick_seconds=5.0, gpu_budget=9)
    assert found["gpus"] == {"taken": len(pods), "budget": 9}
    assert sum(role["starting"] for role in found["services"][0]["roles"]) > 0
