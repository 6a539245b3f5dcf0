"""Invariants over random lives of a fleet: budget, limits, rest, order."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tandem_api import names
from tandem_operator.observe.observe import observe
from tandem_operator.observe.timestamp import format_time
from tandem_operator.plan.actions import Create
from tandem_operator.plan.plan import plan
from tests.operator.fleet import SETTINGS, Fleet, colocated, spec

ROLES = st.sampled_from(["prefill", "decode"])


class Life(RuleBasedStateMachine):
    """A Disaggregated service with a budget, and everything that may happen to it."""

    @initialize(budget=st.integers(2, 9), gpus=st.integers(1, 3))
    def born(self, budget: int, gpus: int) -> None:
        self.budget = max(budget, 2 * gpus)
        self.fleet = Fleet(
            spec(
                gpuBudget=self.budget,
                prefill={"minReplicas": 0, "maxReplicas": 6, "gpus": gpus},
                decode={"minReplicas": 1, "maxReplicas": 6},
                drain={"deadline": "20s"},
            )
        )
        self.fleet.step()

    @rule(role=ROLES, replicas=st.integers(0, 12))
    def scaled(self, role: str, replicas: int) -> None:
        self.fleet.scale(role, replicas)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.fleet.now += seconds
        self.fleet.step()

    @rule(number=st.integers(0, 20))
    def one_pod_gets_ready(self, number: int) -> None:
        pods = self.fleet.pods()
        if pods:
            self.fleet.run([pods[number % len(pods)]["metadata"]["name"]])
        self.fleet.step()

    @rule(number=st.integers(0, 20))
    def one_pod_is_evicted(self, number: int) -> None:
        pods = self.fleet.pods()
        if pods:
            pods[number % len(pods)]["status"] = {"phase": "Failed", "reason": "Evicted"}
            # A finished pod has given its devices back.
            for container in pods[number % len(pods)]["spec"]["containers"]:
                container["resources"] = {}

    @rule(number=st.integers(0, 20))
    def one_pod_is_gone(self, number: int) -> None:
        ending = [pod for pod in self.fleet.pods() if pod["metadata"].get("deletionTimestamp")]
        if ending:
            del self.fleet.objects[("pods", ending[number % len(ending)]["metadata"]["name"])]

    @rule(number=st.integers(0, 9), load=st.sampled_from([None, 0.0, 3.0]))
    def load_changes(self, number: int, load: float | None) -> None:
        self.fleet.busy[f"chat-{number}"] = load

    @rule(sequences=st.sampled_from([64, 128]))
    def edited(self, sequences: int) -> None:
        self.fleet.edit(engine={"maxSequences": sequences})

    @rule()
    def the_pods_become_the_kubelets(self) -> None:
        self.fleet.kubelet()

    @invariant()
    def the_budget_holds(self) -> None:
        if hasattr(self, "fleet"):
            assert self.fleet.gpus() <= self.budget

    @invariant()
    def no_role_outgrows_its_maximum_by_more_than_the_one_of_a_rollout(self) -> None:
        if hasattr(self, "fleet"):
            for count in self.fleet.counts().values():
                assert count <= 7

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.fleet.busy.clear()
        self.fleet.settle(seconds=5.0)
        writes = self.fleet.writes
        # At rest the plan is empty: no action, and nothing to write.
        assert self.fleet.step().actions == ()
        assert self.fleet.writes == writes
        assert self.fleet.counts().get("decode", 0) >= 1


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


@given(st.randoms(use_true_random=False), st.integers(1, 6))
@settings(max_examples=20)
def test_the_order_in_which_the_world_is_listed_does_not_matter(chance: Any, replicas: int) -> None:
    fleet = Fleet()
    fleet.step()
    fleet.scale("decode", replicas)
    fleet.step()
    fleet.run()
    keys = list(fleet.objects)
    chance.shuffle(keys)
    shuffled = {key: fleet.objects[key] for key in keys}
    one = plan(observe(fleet.service, fleet.objects), fleet.now, SETTINGS)
    assert one == plan(observe(fleet.service, shuffled), fleet.now, SETTINGS)


def test_names_are_the_lowest_free_ordinals() -> None:
    fleet = Fleet(colocated(workers={"minReplicas": 3, "maxReplicas": 3}))
    fleet.settle()
    del fleet.objects[("pods", "chat-1")]
    created = [action for action in fleet.step().actions if isinstance(action, Create)]
    assert [action.name for action in created] == ["chat-1"]


def test_a_second_look_at_a_stale_world_asks_for_the_same_names() -> None:
    """So that the API server's 409 stops a double."""
    fleet = Fleet()
    first = [action.name for action in fleet.plan().actions if isinstance(action, Create)]
    second = [action.name for action in fleet.plan().actions if isinstance(action, Create)]
    assert first == second == ["chat-0", "chat-1"]


def test_a_crashing_worker_is_not_answered_with_more_workers() -> None:
    fleet = Fleet(colocated())
    fleet.step()
    fleet.pod("chat-0")["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "engine", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 9,
             "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
        ],
    }  # fmt: skip
    for _ in range(10):
        fleet.step()
        fleet.now += 60
    assert len(fleet.pods()) == 1


def test_an_evicted_worker_is_replaced_but_not_in_a_tight_loop() -> None:
    fleet = Fleet(colocated())
    fleet.settle()
    fleet.now += 100
    for _ in range(3):
        for pod in fleet.pods():
            pod["status"] = {"phase": "Failed", "reason": "Evicted"}
        began = fleet.now
        created_at = fleet.pods()[0]["metadata"]["creationTimestamp"]
        while fleet.pods()[0]["metadata"].get("creationTimestamp") == created_at and fleet.now < began + 60:
            fleet.step()
            for pod in fleet.pods():
                if pod["metadata"].get("deletionTimestamp"):
                    del fleet.objects[("pods", pod["metadata"]["name"])]
            fleet.now += 1
    replaced = [action for action in fleet.log if isinstance(action, Create)]
    assert 2 <= len(replaced) <= 8


def test_nothing_is_planned_for_a_service_that_is_being_deleted() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    fleet.objects.clear()
    decided = fleet.plan()
    assert (decided.actions, decided.objects, decided.pools, decided.status) == ((), (), (), None)


def test_gpus_that_cannot_be_told_stop_growth_and_say_so() -> None:
    claims = {"spec": {"resourceClaims": [{"name": "gpu"}]}}
    fleet = Fleet(colocated(gpuBudget=8, workers={"gpus": 0, "template": claims}))
    fleet.step()
    assert fleet.pods() == []
    assert fleet.condition("WorkersReady")["reason"] == "GPUCountUnknown"


def test_pods_of_an_earlier_service_of_this_name_count_against_the_budget() -> None:
    fleet = Fleet(colocated(gpuBudget=1))
    fleet.step()
    old = copy.deepcopy(fleet.pod("chat-0"))
    old["metadata"]["ownerReferences"][0]["uid"] = "an-earlier-one"
    fleet = Fleet(colocated(gpuBudget=1))
    fleet.objects[("pods", "chat-0")] = old
    fleet.step()
    assert len(fleet.pods()) == 1
    del fleet.objects[("pods", "chat-0")]
    fleet.step()
    assert len(fleet.pods()) == 1


def test_an_earlier_services_pod_whose_gpus_cannot_be_told_stops_growth() -> None:
    fleet = Fleet(colocated(gpuBudget=4))
    fleet.step()
    old = copy.deepcopy(fleet.pod("chat-0"))
    old["metadata"]["ownerReferences"][0]["uid"] = "an-earlier-one"
    old["spec"]["resourceClaims"] = [{"name": "gpu"}]
    old["spec"]["containers"][0].pop("resources")
    fleet = Fleet(colocated(gpuBudget=4))
    fleet.objects[("pods", "chat-0")] = old
    fleet.step()
    assert len(fleet.pods()) == 1


def test_a_change_of_mode_never_leaves_the_service_without_a_routable_worker() -> None:
    fleet = Fleet()
    fleet.settle()
    fleet.service["spec"] = colocated()
    for _ in range(120):
        fleet.step()
        serving = {pod.role for pod in fleet.observed().pods if pod.member and pod.ready and pod.serving}
        router = fleet.objects[("deployments", "chat-router")]["spec"]["template"]["spec"]["containers"][0][
            "args"
        ]
        # Whichever way the router is turned, what it selects is there.
        assert {"workers"} <= serving if "--selector" in router else {"prefill", "decode"} <= serving
        fleet.kubelet()
        fleet.now += 1
    assert fleet.counts() == {"workers": 1}
    assert [name for plural, name in fleet.objects if plural == names.WORKER_POOLS] == ["chat-workers"]


def test_the_old_roles_stay_while_a_router_of_before_still_ends() -> None:
    """Clients keep their connections to it: what comes by them is served by the old roles."""
    fleet = Fleet()
    fleet.settle()
    fleet.service["spec"] = colocated()
    ending = {
        "metadata": {
            "name": "chat-router-old", "uid": "old-router", "deletionTimestamp": format_time(fleet.now + 60),
            "labels": {names.LABEL_SERVICE: "chat", names.LABEL_COMPONENT: names.COMPONENT_ROUTER},
        },
        "spec": {"containers": []}, "status": {"phase": "Running", "podIP": "10.0.0.9"},
    }  # fmt: skip
    current = copy.deepcopy(ending)
    current["metadata"] |= {"name": "chat-router-new", "uid": "new-router"}
    del current["metadata"]["deletionTimestamp"]
    fleet.objects[("pods", "chat-router-new")] = current
    fleet.objects[("pods", "chat-router-old")] = ending
    for _ in range(50):
        fleet.step()
        fleet.run(pod["metadata"]["name"] for pod in fleet.pods() if "router" not in pod["metadata"]["name"])
        fleet_router_rolls_out(fleet)
        assert {"prefill", "decode"} <= {pod.role for pod in fleet.observed().pods if pod.serving}
        fleet.now += 1
    # It should have been gone by now: its node is lost, and nobody waits for it any longer.
    fleet.now += 20
    fleet.step()
    assert {pod.role for pod in fleet.observed().pods if pod.serving} == {"workers"}


def fleet_router_rolls_out(fleet: Fleet) -> None:
    router = fleet.objects[("deployments", "chat-router")]
    router["status"] = {
        "observedGeneration": router["metadata"]["generation"], "replicas": 1, "readyReplicas": 1,
        "updatedReplicas": 1,
    }  # fmt: skip
