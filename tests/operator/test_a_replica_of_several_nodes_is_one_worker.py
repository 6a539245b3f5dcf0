"""A replica whose model is larger than a node is a group of pods, created, drained, replaced and counted as one worker
(field cases A11, D7; docs/adr/0009)."""

import re
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.template_hash import template_hash
from tandem_operator.observe.spec import read_spec
from tandem_operator.plan.actions import Create, Delete, Drain
from tests.operator.fleet import Fleet, colocated, spec

Manifest = dict[str, Any]


def role(**changes: Any) -> Manifest:
    return {"minReplicas": 1, "maxReplicas": 8, "gpus": 8, "nodes": 2, **changes}


def two_nodes(**changes: Any) -> Manifest:
    return colocated(workers=role(), **changes)


def disaggregated(**changes: Any) -> Manifest:
    return spec(prefill=role(pipelineParallel=1), decode=role(pipelineParallel=1), **changes)


def serving(wish: Manifest | None = None, *, replicas: int = 1) -> Fleet:
    fleet = Fleet(wish or two_nodes())
    fleet.step()
    fleet.scale("workers", replicas)
    fleet.settle()
    return fleet


def pod_names(fleet: Fleet) -> set[str]:
    return {pod["metadata"]["name"] for pod in fleet.pods()}


def words(fleet: Fleet, pod: str) -> list[str]:
    return list(fleet.pod(pod)["spec"]["containers"][0]["args"])


def value(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


def selects(selector: Manifest, labels: Manifest) -> bool:
    """As Kubernetes reads a label selector (`In` is the only operator used here)."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []
    assert all(expression["operator"] == "In" for expression in expressions)
    return wanted.items() <= labels.items() and all(
        labels.get(expression["key"]) in expression["values"] for expression in expressions
    )


def restart(fleet: Fleet, pod: str) -> None:
    fleet.pod(pod)["status"]["containerStatuses"][0]["restartCount"] = 1


def held_gpus(fleet: Fleet) -> int:
    """By the scheduler's reckoning: a pod that failed holds none."""
    return 8 * sum(pod.get("status", {}).get("phase") != "Failed" for pod in fleet.pods())


def vanish(fleet: Fleet, pod: str) -> None:
    """Gone at once, as with its node."""
    del fleet.objects[("pods", pod)]


# --- how it is rendered ---------------------------------------------------------------------------------------
def test_each_rank_is_told_its_place_and_the_leaders_address() -> None:
    fleet = serving(colocated(workers=role(nodes=3)))
    assert pod_names(fleet) == {"chat-0", "chat-0-r1", "chat-0-r2"}
    for rank, pod in enumerate(("chat-0", "chat-0-r1", "chat-0-r2")):
        args = words(fleet, pod)
        assert value(args, "--nnodes") == "3"
        assert value(args, "--node-rank") == str(rank)
        assert value(args, "--master-port") == str(names.MASTER_PORT)
        assert ("--headless" in args) == (rank > 0), "only rank 0 has an HTTP server"
    # Kubernetes fills in the variable: the leader's own address, which no DNS has to know yet.
    assert value(words(fleet, "chat-0"), "--master-addr") == "$(VLLM_HOST_IP)"
    assert value(words(fleet, "chat-0-r2"), "--master-addr") == "chat-0.chat-leaders.team.svc"


def test_the_address_that_followers_are_told_is_one_that_dns_has() -> None:
    fleet = serving()
    service = fleet.objects[("services", "chat-leaders")]["spec"]
    leader, follower = fleet.pod("chat-0"), fleet.pod("chat-0-r1")
    assert (leader["spec"]["hostname"], leader["spec"]["subdomain"]) == ("chat-0", "chat-leaders")
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"], "the ranks meet before the leader is ready"
    assert service["selector"].items() <= leader["metadata"]["labels"].items()
    assert not service["selector"].items() <= follower["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("changes", "tensor", "pipeline"),
    [
        ({}, "8", "2"),
        ({"pipelineParallel": 1}, "16", None),
        ({"pipelineParallel": 4}, "4", "4"),
        ({"gpus": 0}, "1", "2"),
        ({"nodes": 1, "pipelineParallel": 2}, "4", "2"),
        ({"nodes": 1}, "8", None),
    ],
)
def test_stages_follow_the_nodes_unless_told_otherwise(
    changes: Manifest, tensor: str, pipeline: str | None
) -> None:
    args = words(serving(colocated(workers=role(**changes))), "chat-0")
    assert value(args, "--tensor-parallel-size") == tensor
    assert ("--pipeline-parallel-size" in args) == (pipeline is not None)
    assert pipeline is None or value(args, "--pipeline-parallel-size") == pipeline


def test_a_worker_on_one_node_is_rendered_as_ever() -> None:
    fleet = serving(colocated(workers=role(nodes=1)))
    made = fleet.pod("chat-0")
    assert {"--nnodes", "--node-rank", "--master-addr", "--headless"}.isdisjoint(words(fleet, "chat-0"))
    assert {names.LABEL_GROUP, names.LABEL_RANK}.isdisjoint(made["metadata"]["labels"])
    assert names.ANNOTATION_JOINED not in made["metadata"].get("annotations", {})
    assert {"hostname", "subdomain"}.isdisjoint(made["spec"])
    assert ("services", "chat-leaders") not in fleet.objects
    typed = InferenceServiceSpec.model_validate(colocated())
    said = InferenceServiceSpec.model_validate(colocated(workers={"maxReplicas": 8, "nodes": 1}))
    assert template_hash("chat", typed, typed.roles["workers"]) == template_hash(
        "chat", said, said.roles["workers"]
    )


def test_nobody_asks_a_follower_by_http() -> None:
    probe = {"httpGet": {"path": "/mine", "port": 8000}}
    container = {"name": "engine", "readinessProbe": probe}
    fleet = serving(colocated(workers=role(template={"spec": {"containers": [container]}})))
    leader, follower = (fleet.pod(pod)["spec"]["containers"][0] for pod in ("chat-0", "chat-0-r1"))
    assert leader["readinessProbe"]["httpGet"] == probe["httpGet"]
    assert {"startupProbe", "livenessProbe"} <= leader.keys()
    assert {"startupProbe", "readinessProbe", "livenessProbe", "ports"}.isdisjoint(follower)


def test_a_follower_that_is_told_to_end_outlives_its_leader() -> None:
    """The streams are the leader's, and they end when a rank does."""
    fleet = serving(two_nodes(drain={"deadline": "120s"}))
    follower = fleet.pod("chat-0-r1")["spec"]
    command = follower["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    host, port, seconds = command[-3:]
    assert (host, port) == ("chat-0.chat-leaders.team.svc", str(names.ENGINE_PORT))
    assert 240 < int(seconds) < follower["terminationGracePeriodSeconds"]


def test_a_follower_goes_soon_after_its_leader_stopped_listening() -> None:
    fleet = serving()
    command = fleet.pod("chat-0-r1")["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    with socket.create_server(("127.0.0.1", 0)) as leader:
        words = [sys.executable, *command[1:3], "127.0.0.1", str(leader.getsockname()[1]), "60"]
        waiting = subprocess.Popen(words)
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(3)
            leader.close()
            assert waiting.wait(20) == 0
        finally:
            waiting.kill()
            waiting.wait()


def test_only_leaders_are_workers_to_those_who_select_workers() -> None:
    fleet = _disaggregated_fleet()
    router = fleet.objects[("deployments", "chat-router")]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    prefill = dict(word.split("=") for word in router[router.index("--prefill-selector") + 1 :][:4])
    pool = dict(
        part.split("=")
        for part in fleet.objects[("workerpools", "chat-prefill")]["status"]["selector"].split(",")
    )
    for selector in (prefill, pool):
        found = {
            pod["metadata"]["name"]
            for pod in fleet.pods()
            if selector.items() <= pod["metadata"]["labels"].items()
        }
        assert len(found) == 1 and all(re.fullmatch(r"chat-\d+", name) for name in found)


def test_the_network_policy_and_the_eviction_budget_know_the_followers() -> None:
    fleet = serving(replicas=3)
    policy = fleet.objects[("networkpolicies", "chat-workers")]["spec"]
    budget = fleet.objects[("poddisruptionbudgets", "chat-workers")]["spec"]
    for pod in fleet.pods():
        assert selects(policy["podSelector"], pod["metadata"]["labels"])
        assert selects(policy["ingress"][1]["from"][0]["podSelector"], pod["metadata"]["labels"])
        assert selects(budget["selector"], pod["metadata"]["labels"])
    assert budget["minAvailable"] == 3 * 2 - 1, (
        "one pod of one group; the next when that group is whole again"
    )


def _disaggregated_fleet() -> Fleet:
    fleet = Fleet(disaggregated())
    fleet.settle()
    return fleet


# --- how it is counted ----------------------------------------------------------------------------------------
def test_a_group_is_one_replica_in_every_count() -> None:
    fleet = serving(replicas=2)
    assert len(fleet.pods()) == 4
    assert fleet.counts() == {"workers": 2}
    status = fleet.service["status"]
    assert status["roles"]["workers"]["summary"] == status["summary"] == "2/2"
    assert status["gpus"] == {"used": 32}
    pool = fleet.objects[("workerpools", "chat-workers")]["status"]
    assert (pool["replicas"], pool["readyReplicas"]) == (2, 2)


def test_a_group_is_ready_when_all_its_ranks_are() -> None:
    fleet = Fleet(two_nodes())
    fleet.step()
    fleet.run(["chat-0"])
    fleet.step()
    assert fleet.condition("WorkersReady")["status"] == "False"
    assert fleet.objects[("workerpools", "chat-workers")]["status"]["readyReplicas"] == 0
    fleet.run(["chat-0-r1"])
    fleet.step()
    assert fleet.condition("WorkersReady")["status"] == "True"


def test_what_ails_a_follower_is_told_of_the_role_and_by_its_name() -> None:
    fleet = Fleet(two_nodes())
    fleet.step()
    fleet.run(["chat-0"])
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
               "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}  # fmt: skip
    fleet.pod("chat-0-r1")["status"] = {"phase": "Pending", "conditions": [waiting]}
    fleet.step()
    condition = fleet.condition("WorkersReady")
    assert condition["reason"] == "InsufficientGPU"
    assert "chat-0-r1: 0/3 nodes are available" in condition["message"]


def test_the_budget_admits_a_group_whole_or_not_at_all() -> None:
    fleet = serving(two_nodes(gpuBudget=31), replicas=2)
    assert fleet.counts() == {"workers": 1} and fleet.gpus() == 16
    condition = fleet.condition("WorkersReady")
    assert condition["reason"] == "GPUBudgetExceeded"
    assert "one more needs 16 GPUs, and 16 of gpuBudget 31 are in use" in condition["message"]


def test_the_gpus_of_a_rank_that_is_still_to_be_made_are_taken_already() -> None:
    fleet = Fleet(two_nodes(gpuBudget=24))
    fleet.step()
    vanish(fleet, "chat-0-r1")
    assert fleet.observed().pods[0].gpus == 16


def test_groups_look_for_their_nodes_one_after_the_other() -> None:
    """Two that have half of theirs each would wait for the other for ever."""
    fleet = Fleet(two_nodes())
    fleet.step()
    fleet.scale("workers", 3)
    fleet.step()
    assert pod_names(fleet) == {"chat-0", "chat-0-r1"}
    fleet.pod("chat-0")["spec"]["nodeName"] = "node-1"
    fleet.step()
    assert pod_names(fleet) == {"chat-0", "chat-0-r1"}
    fleet.pod("chat-0-r1")["spec"]["nodeName"] = "node-2"
    fleet.step()
    assert pod_names(fleet) == {"chat-0", "chat-0-r1", "chat-1", "chat-1-r1"}
    assert fleet.condition("WorkersReady")["reason"] == "Starting"


# --- how it goes ----------------------------------------------------------------------------------------------
def test_a_smaller_number_drains_one_leader_and_then_ends_all_its_pods() -> None:
    fleet = serving(replicas=2)
    fleet.busy = {"chat-0": 1.0, "chat-1": 1.0}
    fleet.scale("workers", 1)
    fleet.log.clear()
    for _ in range(10):
        fleet.step()
        fleet.now += 1
    assert [type(action) for action in fleet.log] == [Drain]
    drained = fleet.log[0].pod  # type: ignore[union-attr]
    assert len(fleet.pods()) == 4, "its open requests need all ranks"
    fleet.busy.clear()
    fleet.settle()
    assert pod_names(fleet).isdisjoint({drained, f"{drained}-r1"})
    assert fleet.counts() == {"workers": 1} and len(fleet.pods()) == 2


def test_a_draining_group_is_taken_back_when_the_role_grows_again() -> None:
    fleet = serving(replicas=2)
    fleet.busy = {"chat-0": 1.0, "chat-1": 1.0}
    fleet.scale("workers", 1)
    fleet.step()
    fleet.scale("workers", 2)
    fleet.settle()
    assert sum(isinstance(action, Create) for action in fleet.log) == 2
    assert fleet.counts() == {"workers": 2}


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_rollout_goes_group_by_group_within_the_budget(replicas: int) -> None:
    fleet = serving(two_nodes(gpuBudget=16 * replicas), replicas=replicas)
    before = {pod["metadata"]["uid"] for pod in fleet.pods()}
    fleet.edit(engine={"maxModelLen": 4096})
    for _ in range(200):
        fleet.step()
        assert fleet.gpus() <= 16 * replicas
        gone = [pod for pod in fleet.observed().pods if not pod.member]
        assert len(gone) <= 1, "one group at a time"
        fleet.kubelet()
        fleet.now += 1
    assert before.isdisjoint({pod["metadata"]["uid"] for pod in fleet.pods()})
    assert fleet.counts() == {"workers": replicas}


def test_a_group_that_becomes_a_single_pod_leaves_no_name_behind() -> None:
    fleet = serving()
    fleet.edit(workers=role(nodes=1, gpus=16))
    fleet.settle()
    assert [pod["metadata"]["labels"].get(names.LABEL_GROUP) for pod in fleet.pods()] == [None]
    assert ("services", "chat-leaders") not in fleet.objects


def test_a_flip_takes_the_followers_along() -> None:
    fleet = _disaggregated_fleet()
    fleet.scale("prefill", 2)
    fleet.settle()
    fleet.scale("prefill", 1)
    fleet.scale("decode", 2)
    fleet.settle()
    assert fleet.counts() == {"prefill": 1, "decode": 2}
    assert sum(isinstance(action, Create) for action in fleet.log) == 3
    roles = {pod["metadata"]["name"]: pod["metadata"]["labels"][names.LABEL_ROLE] for pod in fleet.pods()}
    for leader in (name for name in roles if not name.endswith("-r1")):
        assert roles[f"{leader}-r1"] == roles[leader]


# --- how it fails ---------------------------------------------------------------------------------------------
def test_a_rank_that_is_missing_before_the_engine_serves_is_made_again() -> None:
    fleet = Fleet(two_nodes())
    fleet.step()
    leader = fleet.pod("chat-0")["metadata"]["uid"]
    vanish(fleet, "chat-0-r1")
    fleet.settle()
    assert pod_names(fleet) == {"chat-0", "chat-0-r1"}
    assert fleet.pod("chat-0")["metadata"]["uid"] == leader
    assert [action.reason for action in fleet.log if isinstance(action, Create)][1:] == [
        "rank 1 of chat-0 is missing"
    ]


def test_a_group_that_was_outdated_before_it_was_whole_is_not_completed() -> None:
    fleet = Fleet(two_nodes())
    fleet.step()
    vanish(fleet, "chat-0-r1")
    fleet.edit(engine={"maxModelLen": 4096})
    fleet.step()
    assert "chat-0-r1" not in pod_names(fleet)
    fleet.settle()
    assert fleet.counts() == {"workers": 1} and len(fleet.pods()) == 2


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("vanishes", "is gone"),
        ("fails", "ended (Evicted)"),
        ("restarts", "restarted"),
    ],
)
def test_the_loss_of_a_rank_replaces_the_whole_group(rank: int, fault: str, reason: str) -> None:
    """The others wait for it for ever: its place cannot be taken."""
    fleet = serving()
    before = {pod["metadata"]["uid"] for pod in fleet.pods()}
    fleet.busy["chat-0"] = 1.0
    fleet.now += 3600
    fleet.log.clear()
    pod = ("chat-0", "chat-0-r1")[rank]
    match fault:
        case "vanishes":
            vanish(fleet, pod)
        case "fails":
            fleet.pod(pod)["status"] = {"phase": "Failed", "reason": "Evicted"}
        case "restarts":
            restart(fleet, pod)
    fleet.step()
    deleted = [action for action in fleet.log if isinstance(action, Delete)]
    assert len(deleted) == 1 and pod in deleted[0].reason and reason in deleted[0].reason
    assert not any(isinstance(action, Drain) for action in fleet.log), "nothing of it can still be finished"
    fleet.busy.clear()
    fleet.settle()
    assert before.isdisjoint({pod["metadata"]["uid"] for pod in fleet.pods()})
    assert fleet.counts() == {"workers": 1} and len(fleet.pods()) == 2


def test_a_restart_before_the_ranks_met_is_the_kubelets_business() -> None:
    fleet = Fleet(two_nodes())
    fleet.step()
    fleet.run()
    # The leader waits for its start-up probe; the follower lost it once.
    fleet.pod("chat-0")["status"]["conditions"] = []
    fleet.pod("chat-0")["status"]["containerStatuses"][0] |= {"started": False, "ready": False}
    restart(fleet, "chat-0-r1")
    fleet.settle(kubelet=False)
    assert pod_names(fleet) == {"chat-0", "chat-0-r1"}
    fleet.run(["chat-0"])
    fleet.settle(kubelet=False)
    assert pod_names(fleet) == {"chat-0", "chat-0-r1"}
    assert not any(isinstance(action, Delete) for action in fleet.log)


def test_a_follower_that_is_being_deleted_lets_the_streams_end() -> None:
    """An eviction, a hand: until it is gone the engine works, so the worker leaves the router and drains."""
    fleet = serving()
    fleet.busy["chat-0"] = 2.0
    fleet.pod("chat-0-r1")["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"
    fleet.log.clear()
    for _ in range(5):
        fleet.step()
        fleet.now += 1
    drains = [action for action in fleet.log if isinstance(action, Drain)]
    assert [drain.pod for drain in drains] == ["chat-0"] and not drains[0].reversible
    assert "chat-0-r1 is being deleted" in drains[0].reason
    assert not any(isinstance(action, Delete) for action in fleet.log)
    fleet.busy.clear()
    fleet.settle()
    assert fleet.counts() == {"workers": 1} and len(fleet.pods()) == 2


def test_followers_whose_leader_was_deleted_go_too_and_its_name_waits_for_them() -> None:
    fleet = serving()
    fleet.now += 3600
    fleet.pod("chat-0")["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"
    fleet.step()
    assert "deletionTimestamp" not in fleet.pod("chat-0-r1")["metadata"], "it outlives the leader's streams"
    vanish(fleet, "chat-0")
    fleet.step()
    assert "deletionTimestamp" in fleet.pod("chat-0-r1")["metadata"]
    assert "chat-0" not in pod_names(fleet)
    fleet.settle()
    assert fleet.counts() == {"workers": 1} and len(fleet.pods()) == 2


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_worker_that_fails_as_soon_as_it_is_made_is_no_fork_bomb(nodes: int) -> None:
    fleet = Fleet(colocated(workers=role(nodes=nodes)))
    fleet.step()
    for _ in range(60):
        for pod in fleet.pods():
            pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
        fleet.step()
        for pod in fleet.pods():
            if pod["metadata"].get("deletionTimestamp"):
                vanish(fleet, pod["metadata"]["name"])
        fleet.now += 1
    assert 2 <= sum(isinstance(action, Create) for action in fleet.log) <= 8


def test_a_name_that_somebody_else_has_is_no_ranks() -> None:
    fleet = Fleet(two_nodes())
    stranger = {"metadata": {"name": "chat-0-r1", "namespace": "team", "uid": "other",
                             "labels": {names.LABEL_SERVICE: "chat"}}, "spec": {}}  # fmt: skip
    fleet.objects[("pods", "chat-0-r1")] = stranger
    fleet.step()
    assert {"chat-1", "chat-1-r1"} <= pod_names(fleet)
    assert "chat-0" not in pod_names(fleet)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_whatever_happens_groups_are_whole_or_go(data: st.DataObject) -> None:
    budget = 16 * data.draw(st.integers(1, 4), label="budget in groups")
    fleet = Fleet(two_nodes(gpuBudget=budget))
    fleet.step()
    for _ in range(data.draw(st.integers(1, 8), label="events")):
        event = data.draw(
            st.sampled_from(["scale", "vanish", "fail", "restart", "delete", "roll", "kubelet"]),
            label="event",
        )
        pods = sorted(pod_names(fleet))
        pod = data.draw(st.sampled_from(pods), label="pod") if pods else ""
        if event == "scale":
            fleet.scale("workers", data.draw(st.integers(1, 5), label="replicas"))
        elif event == "roll":
            fleet.edit(engine={"maxModelLen": data.draw(st.sampled_from([1024, 2048]), label="length")})
        elif event == "kubelet":
            fleet.kubelet()
        elif pod and event == "vanish":
            vanish(fleet, pod)
        elif pod and event == "fail":
            fleet.pod(pod)["status"] = {"phase": "Failed", "reason": "Evicted"}
        elif pod and event == "delete":
            fleet.pod(pod)["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"
        elif pod and "containerStatuses" in fleet.pod(pod).get("status", {}):
            restart(fleet, pod)
        for _ in range(data.draw(st.integers(0, 3), label="passes")):
            fleet.step()
            assert held_gpus(fleet) <= budget
            for live in fleet.pods():
                follows = live["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_FOLLOWER
                assert not (follows and names.LABEL_SERVING in live["metadata"]["labels"])
            fleet.now += 1
    fleet.settle()
    asked = fleet.objects[("workerpools", "chat-workers")]["spec"]["replicas"]
    assert fleet.counts() == {"workers": min(max(1, asked), budget // 16)}
    assert len(fleet.pods()) == 2 * fleet.counts()["workers"]
    decided = fleet.plan()
    assert decided.actions == () and decided.marks == ()


# --- what is refused ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (
            colocated(workers=role(pipelineParallel=3)),
            "spec.workers: pipelineParallel 3 must divide nodes x gpus",
        ),
        (
            spec(prefill=role(), decode=role(nodes=1)),
            "the KV transfer of mode Disaggregated does not work over",
        ),
        (two_nodes(engine={"lateDemotion": True}), "engine.lateDemotion does not work over pipeline stages"),
        (two_nodes(engine={"extraArgs": ["--data-parallel-size", "2"]}), "does not go with nodes above 1"),
        (two_nodes(engine={"extraArgs": ["--nnodes=3"]}), "--nnodes, which Tandem sets itself"),
        (two_nodes(engine={"extraArgs": ["--headless"]}), "--headless, which Tandem sets itself"),
        (two_nodes(engine={"extraArgs": ["-pp", "2"]}), "-pp, which Tandem sets itself"),
        (colocated(workers=role(nodes=0)), "spec.workers.nodes"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(wish: Manifest, sentence: str) -> None:
    typed, answer = read_spec(wish)
    assert typed is None and answer is not None
    assert sentence in answer and "\n" not in answer


@pytest.mark.parametrize(
    "wish",
    [
        disaggregated(),
        disaggregated(engine={"lateDemotion": True}),
        colocated(workers=role(nodes=1, pipelineParallel=4)),
        two_nodes(engine={"extraArgs": ["--seed", "-1"]}),
    ],
)
def test_what_works_is_not_refused(wish: Manifest) -> None:
    assert read_spec(wish)[1] is None
