"""Undrain: a role that grows takes back its own warm workers first, as long as nothing is wrong with them."""

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_api import names
from tandem_api.kubernetes.cluster import EVENT, POD, Cluster, Conflict, Kind, Manifest, Missing
from tandem_operator.build.template_hash import template_hash
from tandem_operator.carry_out.carry_out import CarryOut
from tandem_operator.carry_out.event_writer import EventWriter
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import view_pod
from tandem_operator.plan.actions import Create, Delete, Drain, Plan, Undrain
from tandem_operator.plan.events import action_events
from tandem_operator.watch.world import World
from tests.operator.fleet import START, Fleet, colocated, spec
from tests.operator.test_our_own_writes_bring_the_next_look import Dictionary


def shrunk(replicas: int, to: int, wish: Manifest | None = None, **busy: float | None) -> Fleet:
    """A settled fleet of `workers` that has just been scaled down; without a word about a worker it is busy."""
    fleet = Fleet(wish or colocated())
    fleet.settle()
    fleet.scale("workers", replicas)
    fleet.settle()
    fleet.busy = {f"chat-{number}": busy.get(f"chat_{number}", 5.0) for number in range(replicas)}
    fleet.scale("workers", to)
    fleet.step()
    fleet.now += 5
    fleet.step()
    fleet.log.clear()
    return fleet


def only_draining(fleet: Fleet) -> Manifest:
    (name,) = [pod.name for pod in fleet.observed().pods if pod.draining]
    return fleet.pod(name)


def taken_back(actions: Any) -> list[str]:
    return [action.pod for action in actions if isinstance(action, Undrain)]


def created(actions: Any) -> list[str]:
    return [action.name for action in actions if isinstance(action, Create)]


def test_two_one_two_is_the_same_worker_again() -> None:
    fleet = shrunk(2, 1)
    leaving = only_draining(fleet)["metadata"]["name"]
    before = {pod["metadata"]["uid"] for pod in fleet.pods()}
    fleet.scale("workers", 2)
    decided = fleet.step()
    assert decided.actions == (
        Undrain(leaving, fleet.pod(leaving)["metadata"]["uid"], "workers", "", "workers 1 -> 2"),
    )
    (event,) = decided.events
    assert (event.reason, event.message) == (
        "WorkerUndrained",
        f"{leaving} comes back to the router: workers 1 -> 2",
    )
    metadata = fleet.pod(leaving)["metadata"]
    assert metadata["labels"][names.LABEL_SERVING] == "true"
    assert not [key for key in metadata.get("annotations", {}) if "drain" in key]
    fleet.busy.clear()
    fleet.settle()
    assert {pod["metadata"]["uid"] for pod in fleet.pods()} == before
    assert fleet.service["status"]["roles"]["workers"]["draining"] == 0
    assert fleet.service["status"]["summary"] == "2/2"


def test_the_fullest_comes_back_first() -> None:
    fleet = shrunk(4, 1, chat_0=9.0, chat_1=2.0, chat_2=7.0, chat_3=4.0)
    fleet.scale("workers", 3)
    assert taken_back(fleet.step().actions) == ["chat-2", "chat-3"]


def test_an_unknown_load_is_taken_for_the_fullest() -> None:
    fleet = shrunk(3, 1, chat_0=9.0, chat_1=2.0, chat_2=7.0)
    fleet.busy["chat-1"] = None
    fleet.scale("workers", 2)
    assert taken_back(fleet.step().actions) == ["chat-1"]


def test_only_what_is_still_lacking_is_created() -> None:
    fleet = shrunk(3, 2)
    fleet.scale("workers", 5)
    decided = fleet.step()
    assert [type(action) for action in decided.actions] == [Undrain, Create, Create]


@pytest.mark.parametrize("seconds", [20, 400], ids=["idle", "at its deadline"])
def test_a_worker_that_was_about_to_be_deleted_is_taken_back(seconds: float) -> None:
    fleet = shrunk(2, 1)
    if seconds == 20:
        fleet.busy.clear()
        fleet.now += 10
        fleet.observed()
    fleet.now += seconds
    assert [type(action) for action in fleet.plan().actions] == [Delete]
    fleet.scale("workers", 2)
    assert [type(action) for action in fleet.step().actions] == [Undrain]


def unready(pod: Manifest) -> None:
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def deleted(pod: Manifest) -> None:
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"


def on_a_lost_node(pod: Manifest) -> None:
    pod["status"]["reason"] = "NodeLost"


def drained_by_hand(pod: Manifest) -> None:
    del pod["metadata"]["annotations"][names.ANNOTATION_DRAIN_REVERSIBLE]


def of_another_template(pod: Manifest) -> None:
    pod["metadata"]["labels"][names.LABEL_TEMPLATE_HASH] = "another"


@pytest.mark.parametrize("flaw", [unready, deleted, on_a_lost_node, drained_by_hand, of_another_template])
def test_a_worker_that_is_not_fit_to_serve_stays_out(flaw: Callable[[Manifest], None]) -> None:
    fleet = shrunk(2, 1)
    flaw(only_draining(fleet))
    fleet.scale("workers", 2)
    actions = fleet.step().actions
    assert taken_back(actions) == []
    assert len(created(actions)) == 1


def test_what_a_rollout_let_go_does_not_come_back_even_when_the_template_does() -> None:
    fleet = Fleet(colocated(gpuBudget=2, workers={"minReplicas": 2, "maxReplicas": 2}))
    fleet.settle()
    fleet.busy = {"chat-0": 5.0, "chat-1": 5.0}
    fleet.edit(engine={"maxSequences": 64})
    fleet.step()
    assert [type(action) for action in fleet.log if isinstance(action, Drain)] == [Drain]
    fleet.edit(engine={})
    assert taken_back(fleet.step().actions) == []


# --- the budget --------------------------------------------------------------------------------------------
def test_a_full_budget_does_not_stand_in_the_way() -> None:
    """The worker's GPU counts already."""
    fleet = shrunk(2, 1, colocated(gpuBudget=2))
    fleet.scale("workers", 3)
    decided = fleet.step()
    assert len(taken_back(decided.actions)) == 1
    assert created(decided.actions) == []
    assert fleet.condition("WorkersReady")["reason"] == "GPUBudgetExceeded"


def test_what_a_lowered_budget_let_go_comes_back_only_with_the_budget() -> None:
    fleet = shrunk(4, 4, colocated(gpuBudget=4))
    fleet.edit(gpuBudget=2)
    fleet.step()
    assert len([action for action in fleet.log if isinstance(action, Drain)]) == 2
    for _ in range(3):
        fleet.now += 1
        assert fleet.step().actions == ()
    fleet.edit(gpuBudget=3)
    assert [type(action) for action in fleet.step().actions] == [Undrain]
    fleet.now += 1
    assert fleet.step().actions == ()


def test_a_role_below_its_minimum_has_the_first_claim_on_the_gpu() -> None:
    fleet = Fleet(spec(gpuBudget=3))
    fleet.settle()
    fleet.scale("prefill", 2)
    fleet.settle()
    fleet.busy = {f"chat-{number}": 5.0 for number in range(3)}
    fleet.scale("prefill", 1)
    fleet.step()
    fleet.edit(decode={"minReplicas": 2, "maxReplicas": 8})
    fleet.scale("prefill", 2)
    assert taken_back(fleet.step().actions) == []
    fleet.busy.clear()
    fleet.settle()
    assert fleet.counts() == {"prefill": 1, "decode": 2}


# --- the write ---------------------------------------------------------------------------------------------
class Versioned(Dictionary):
    """Keeps the server's promise about a patch that names a version."""

    async def patch(
        self, kind: Kind, namespace: str | None, name: str, merge: Manifest, **options: Any
    ) -> Manifest:
        live = self.objects.get((kind.plural, name))
        if live is None:
            raise Missing(f"{name} not found", status=404)
        if any(merge["metadata"][key] != live["metadata"][key] for key in ("uid", "resourceVersion")):
            raise Conflict(f"{name} has been modified", status=409)
        return await super().patch(kind, namespace, name, merge, **options)


def nothing_happens(server: Versioned) -> None: ...


def it_is_deleted(server: Versioned) -> None:
    pod = copy.deepcopy(server.objects[(POD.plural, "chat-0")])
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    server._store(POD, pod)


def it_is_gone(server: Versioned) -> None:
    del server.objects[(POD.plural, "chat-0")]


@pytest.mark.parametrize("meanwhile", [nothing_happens, it_is_deleted, it_is_gone])
async def test_a_worker_that_changed_meanwhile_is_left_alone_and_looked_at_again(
    meanwhile: Callable[[Versioned], None],
) -> None:
    server, world = Versioned(), World()
    cluster = cast(Cluster, server)
    manifest = {
        "kind": "Pod",
        "metadata": {
            "name": "chat-0",
            "namespace": "team",
            "labels": {names.LABEL_ROLE: "workers"},
            "annotations": {names.ANNOTATION_DRAIN_STARTED: "2029-01-01T00:00:00Z"},
        },
        "spec": {},
    }
    seen = view_pod(await cluster.create(POD, manifest, manager="test"), container=names.ENGINE_CONTAINER)
    action = Undrain(seen.name, seen.uid, seen.role, seen.resource_version, "workers 0 -> 1")
    meanwhile(server)

    events = EventWriter(cluster, instance="test", clock=lambda: START)
    carry_out = CarryOut(cluster, world, events, clock=lambda: START)
    plan = Plan(actions=(action,), events=action_events((action,)))
    findings = await carry_out(plan, Observed("team", "chat", "u", 1, None))

    done = meanwhile is nothing_happens
    live = server.objects.get((POD.plural, "chat-0"), {"metadata": {"labels": {}}})
    assert (live["metadata"]["labels"].get(names.LABEL_SERVING) == "true") is done
    assert (findings.look_again_seconds is None) is done
    assert bool([key for key in server.objects if key[0] == EVENT.plural]) is done


# --- any life ----------------------------------------------------------------------------------------------
ROLES = st.sampled_from(["prefill", "decode"])
# It is between two scalings that a worker drains, and only one that has served does.
MOVES = st.one_of(
    *[st.tuples(st.just("scale"), ROLES, st.integers(0, 5))] * 6,
    *[st.tuples(st.just("kubelet"), st.none(), st.none())] * 3,
    st.tuples(st.just("load"), st.integers(0, 7), st.sampled_from([None, 0.0, 1.0, 8.0])),
    st.tuples(st.just("time"), st.sampled_from([1.0, 5.0, 40.0]), st.none()),
    st.tuples(st.just("budget"), st.integers(3, 8), st.none()),
    st.tuples(st.just("template"), st.sampled_from([None, 64]), st.none()),
)


def move(fleet: Fleet, what: str, first: Any, second: Any) -> None:
    match what:
        case "scale":
            fleet.scale(first, second)
        case "load":
            fleet.busy[f"chat-{first}"] = second
        case "time":
            fleet.now += first
        case "budget":
            fleet.edit(gpuBudget=first)
        case "template":
            fleet.edit(engine={"maxSequences": first} if first else {})
        case "kubelet":
            fleet.kubelet()


def warm(observed: Observed, role: str) -> set[str]:
    """The role's draining workers that could serve instead of a new one."""
    assert observed.spec is not None
    wanted = template_hash(observed.name, observed.spec, observed.spec.roles[role])
    return {
        pod.name
        for pod in observed.pods
        if pod.role == role
        and (pod.draining and pod.drain_reversible and pod.ready and pod.template_hash == wanted)
    }


@given(st.lists(MOVES, min_size=5, max_size=30))
@settings(max_examples=30)
def test_in_any_life_nothing_is_created_while_a_warm_one_leaves_and_nothing_swings(
    moves: list[tuple[str, Any, Any]],
) -> None:
    fleet = Fleet(
        spec(
            gpuBudget=6,
            prefill={"minReplicas": 0, "maxReplicas": 5},
            decode={"minReplicas": 1, "maxReplicas": 5},
            drain={"deadline": "60s"},
        )
    )
    fleet.step()
    fleet.scale("prefill", 3)
    fleet.scale("decode", 3)
    fleet.settle()
    fleet.busy = {f"chat-{number}": 5.0 for number in range(8)}
    for what, first, second in moves:
        move(fleet, what, first, second)
        observed = fleet.observed()
        actions = fleet.step().actions
        back = {action.pod for action in actions if isinstance(action, Undrain)}
        for role in ("prefill", "decode"):
            could = warm(observed, role)
            assert {a.pod for a in actions if isinstance(a, Undrain) and a.role == role} <= could
            if any(isinstance(action, Create) and action.role == role for action in actions):
                assert could <= back, "one is made while a warm one of its role leaves"
        assert not back & {action.pod for action in actions if isinstance(action, Drain | Delete)}
        # At the same instant, with the same wishes, there is nothing to let go again, nor to take back; unless GPUs
        # have just become free.
        again = fleet.plan().actions
        assert not taken_back(again) or any(isinstance(action, Delete) for action in actions)
        assert not back & {action.pod for action in again if isinstance(action, Drain | Delete)}
    fleet.busy.clear()
    fleet.settle(seconds=5.0)
    assert fleet.step().actions == ()
