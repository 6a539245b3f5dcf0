"""Any life of a service: whatever users, nodes, engines and the API server do, in whatever order.

At each write of the operator all promises are checked (`promises.py`). At the end of each life the troubles stop, and
the service must come to rest: exactly what was asked for, within a bounded number of passes, and then nothing is
written any more (`scene.py`).

200 lives, and 10,000 with TANDEM_DEEP=1 in the environment (`make test-deep`).
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD, WORKER_POOL
from tandem_operator.watch.kinds import WATCHED
from tests.operator.lifecycle.promises import is_worker
from tests.operator.lifecycle.scene import ROLES, Scene
from tests.operator.lifecycle.simulated_cluster import TROUBLES, Trouble

NUMBERS = st.integers(0, 11)
OWN_KINDS = (INFERENCE_SERVICE.plural, WORKER_POOL.plural, POD.plural)
PLURALS = st.sampled_from(OWN_KINDS) | st.sampled_from([kind.plural for kind in WATCHED])
# What comes after: so many seconds in which all goes on, one look of the operator, or the next thing at once.
THEN = st.sampled_from([2, 1, 3, 6, 2, "a look", "a look", "at once", "at once"])


def one_of(items: list[Any], number: int) -> list[Any]:
    """The one with this number, counted round; none of none."""
    return [items[number % len(items)]] if items else []


def happens(**arguments: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """A rule after which the world may go on: without that, most lives would be one long moment."""

    def decorate(act: Callable[..., None]) -> Any:
        def step(life: "Life", then: str | int, **given: Any) -> None:
            act(life, **given)
            life.go_on(then)

        step.__name__ = act.__name__
        return rule(then=THEN, **arguments)(step)

    return decorate


class Life(RuleBasedStateMachine):
    """Few rules with many faces: Hypothesis leaves out some rules for a whole life, and a life needs most of these."""

    scene: Scene

    @initialize(
        mode=st.sampled_from(sorted(ROLES)),
        budget=st.sampled_from([None, 2, 3, 4, 6]),
        gpus=st.integers(2, 5),
        settled=st.sampled_from([True, True, False]),
    )
    def born(self, mode: str, budget: int | None, gpus: int, settled: bool) -> None:
        self.scene = Scene(mode=mode, gpus=gpus, gpuBudget=budget)
        if settled:
            self.scene.rounds(8)

    def teardown(self) -> None:
        if not hasattr(self, "scene"):
            return
        try:
            if self.scene.promises.broken is None:
                self.scene.come_to_rest()
        finally:
            self.scene.close()

    def go_on(self, then: str | int) -> None:
        if then == "a look":
            self.scene.pass_time(0.5)
            self.scene.operator.work()
        elif isinstance(then, int):
            self.scene.rounds(then)

    def _role(self, number: int) -> str:
        return one_of(list(ROLES[self.scene.wish["mode"]]), number)[0]

    # --- the user ----------------------------------------------------------------------------------------
    @happens(role=NUMBERS, replicas=st.integers(0, 5))
    def a_pool_is_scaled(self, role: int, replicas: int) -> None:
        self.scene.scale(self._role(role), replicas)

    @happens(role=NUMBERS, least=st.integers(0, 2), more=st.integers(0, 2), gpus=st.sampled_from([1, 1, 2]))
    def a_role_is_edited(self, role: int, least: int, more: int, gpus: int) -> None:
        limits = {"minReplicas": least, "maxReplicas": max(1, least + more)}
        self.scene.edit_role(self._role(role), gpus=gpus, **limits)

    @happens(
        change=st.tuples(st.just("gpuBudget"), st.sampled_from([None, 1, 2, 3, 4, 6]))
        | st.tuples(st.just("engine"), st.sampled_from([{}, {"maxSequences": 64}, {"maxSequences": 128}]))
        | st.tuples(st.just("mode"), st.sampled_from(sorted(ROLES)))
    )
    def the_service_is_edited(self, change: tuple[str, Any]) -> None:
        self.scene.edit(**dict([change]))

    @happens(what=st.sampled_from(["delete", "make", "delete and make"]))
    def the_service_comes_and_goes(self, what: str) -> None:
        if what != "make":
            self.scene.delete_service()
        if what != "delete":
            self.scene.make_service()

    @happens(
        number=st.integers(0, 4), what=st.sampled_from(["delete a worker", "take a name", "give it back"])
    )
    def somebody_interferes(self, number: int, what: str) -> None:
        server, name = self.scene.server, f"chat-{number}"
        pod = server.get(POD, name)
        if what == "delete a worker":
            for worker in one_of(self.scene.pods(), number):
                server.delete(POD, worker["metadata"]["name"])
        elif what == "take a name" and pod is None:
            server.create(POD, {"metadata": {"name": name}, "spec": {"containers": []}, "status": {}})
        elif what == "give it back" and pod is not None and not is_worker(pod):
            server.remove(POD, name)

    # --- nodes, engines, traffic -------------------------------------------------------------------------
    @happens(
        number=NUMBERS, what=st.sampled_from(["advance", "crash", "evict", "turn_unready", "hold_on_to"])
    )
    def something_happens_to_a_pod(self, number: int, what: str) -> None:
        for pod in one_of(self.scene.pods(), number):
            getattr(self.scene.nodes, what)(pod)
            self.scene.traffic.note()

    @happens(what=st.sampled_from(["a node", "b node", "back", "quota", "no quota"]), quota=st.integers(1, 4))
    def something_happens_to_the_cluster(self, what: str, quota: int) -> None:
        match what:
            case "a node" | "b node":
                self.scene.nodes.lose(f"node-{what[0]}")
                self.scene.traffic.note()
            case "back":
                self.scene.nodes.find_again()
            case _:
                self.scene.server.quota = quota if what == "quota" else None

    @happens(number=NUMBERS, count=st.integers(1, 3))
    def work_arrives(self, number: int, count: int) -> None:
        for pod in one_of(self.scene.traffic.reachable(), number):
            self.scene.traffic.arrive(pod, count)

    @happens(number=NUMBERS, what=st.sampled_from(["one ends", "all end", "deaf", "none deaf"]))
    def work_goes_on(self, number: int, what: str) -> None:
        traffic = self.scene.traffic
        match what:
            case "one ends":
                for uid in one_of(sorted(traffic.open), number):
                    del traffic.open[uid]
            case "all end":
                traffic.open.clear()
            case "deaf":
                traffic.deaf |= {pod["metadata"]["uid"] for pod in one_of(self.scene.pods(), number)}
            case "none deaf":
                traffic.deaf.clear()

    # --- what the operator hears -------------------------------------------------------------------------
    @happens(plural=PLURALS, count=st.integers(1, 4), what=st.sampled_from(["hear", "miss", "watch_anew"]))
    def a_watch_speaks(self, plural: str, count: int, what: str) -> None:
        if what == "watch_anew":
            self.scene.operator.watch_anew(plural)
        else:
            getattr(self.scene.operator, what)(plural, count)

    @happens(arrives=st.booleans())
    def a_list_is_made(self, arrives: bool) -> None:
        if arrives:
            self.scene.operator.end_resync()
        self.scene.operator.begin_resync()

    # --- the operator ------------------------------------------------------------------------------------
    @happens(
        troubles=st.lists(st.sampled_from((*TROUBLES, None)), min_size=1, max_size=4), aimed=st.booleans()
    )
    def the_server_is_in_trouble(self, troubles: list[Trouble | None], aimed: bool) -> None:
        """Of the next writes (or of those of pods) these go wrong; None is one that does not."""
        self.scene.operator.connection.aim = POD if aimed else None
        self.scene.operator.connection.troubles.extend(troubles)

    @happens(writes=st.integers(0, 5), aimed=st.booleans())
    def a_write_will_take_long(self, writes: int, aimed: bool) -> None:
        self.scene.operator.connection.aim = POD if aimed else None
        if not self.scene.operator.waits_for_an_answer:
            self.scene.operator.connection.hold_after = writes

    @happens(what=st.sampled_from(["answered", "killed", "succeeded", "the last one's write is done"]))
    def the_operator_is(self, what: str) -> None:
        match what:
            case "answered":
                self.scene.operator.answer()
            case "killed":
                self.scene.restart()
            case "succeeded":
                self.scene.hand_over()
            case _ if self.scene.predecessor is not None:
                self.scene.predecessor.answer()

    @rule(seconds=st.sampled_from([1.0, 3.0, 8.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.scene.pass_time(seconds)
        self.scene.operator.work()

    @rule(rounds=st.integers(2, 12))
    def a_while_passes(self, rounds: int) -> None:
        self.scene.rounds(rounds)


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=10_000 if os.environ.get("TANDEM_DEEP") else 200,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# Two minutes of a core, and a machine that is shared may take several times as long.
TestLife.pytestmark = [pytest.mark.timeout(0 if os.environ.get("TANDEM_DEEP") else 1200)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 0.75])
def test_a_new_role_is_kept_for_two_cold_starts_at_whatever_part_of_a_second_it_began(part: float) -> None:
    """It is remembered in whole seconds. One of 10,000 lives found a role kept for 9.5 s in place of 10."""
    scene = Scene(mode="Disaggregated", gpus=3, gpuBudget=3)
    try:
        scene.rounds(8)
        scene.scale("decode", 2)
        scene.rounds(4)
        scene.pass_time(part)
        _shared_anew(scene, seconds=3, decode=1, prefill=2)
        noted = [pod["metadata"].get("annotations", {}) for pod in scene.pods()]
        assert any(names.ANNOTATION_FLIPPED_AT in annotations for annotations in noted)
        _shared_anew(scene, seconds=16, decode=2, prefill=1)
        # Back by whichever way is sooner; had it changed again too soon, a promise would have been broken.
        scene.come_to_rest()
    finally:
        scene.close()


def _shared_anew(scene: Scene, *, seconds: int, **replicas: int) -> None:
    """The pools are scaled, and so long later, looked at four times a second, it is so."""
    for role, count in replicas.items():
        scene.scale(role, count)
    for _ in range(4 * seconds):
        scene.round()
        scene.pass_time(0.25)
    assert {role: len(scene.names(role)) for role in replicas} == replicas
