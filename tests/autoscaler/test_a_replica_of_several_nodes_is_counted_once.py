"""Field cases A11 and H6: a group of pods is one replica, seen through its leader; a lone pod needs no rank."""

from typing import Any

import pytest

from tandem_api import names
from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.scrape import pod_url
from tests.autoscaler.test_manifests_become_services import pod, pool, service

NODES = 4


def rank(group: str, number: int, **more: Any) -> dict[str, Any]:
    """One pod of a group of prefill workers, as the operator makes it."""
    made = pod(group if number == 0 else names.follower_name(group, number), serving=number == 0, **more)
    labels = made["metadata"]["labels"]
    if number:
        labels |= {names.LABEL_COMPONENT: names.COMPONENT_FOLLOWER}
    labels |= {names.LABEL_GROUP: group, names.LABEL_RANK: str(number)}
    return made


def seen(*pods: dict[str, Any], nodes: int = NODES) -> Service:
    wish = service(
        prefill={"minReplicas": 0, "maxReplicas": 4, "gpus": 8, "nodes": nodes, "pipelineParallel": 1}
    )
    (found,), broken = observe([wish], [pool("prefill", 2), pool("decode", 1)], pods)
    assert not broken
    return found


def test_two_groups_of_four_pods_are_two_workers() -> None:
    found = seen(*(rank(group, number) for group in ("chat-0", "chat-1") for number in range(NODES)))
    assert [worker.name for worker in found.workers(names.PREFILL)] == ["chat-0", "chat-1"]
    assert all(worker.ready for worker in found.workers(names.PREFILL))


def test_only_leaders_are_asked_for_metrics() -> None:
    leader, follower = rank("chat-0", 0), rank("chat-0", 1)
    follower["status"]["podIP"] = "10.0.0.2"
    assert [pod_url(worker) for worker in seen(leader, follower).pods] == ["http://10.0.0.1:8000/metrics"]


def test_a_worker_costs_the_gpus_of_all_its_nodes() -> None:
    assert seen().pools["prefill"].gpus == 8 * NODES
    assert seen().pools["decode"].gpus == 2


def test_a_worker_without_a_rank_is_a_worker() -> None:
    assert [worker.name for worker in seen(pod("chat-0"), nodes=1).pods] == ["chat-0"]


@pytest.mark.parametrize("number", range(NODES))
def test_a_group_is_ready_when_all_its_ranks_are(number: int) -> None:
    found = seen(*(rank("chat-0", other, ready=other != number) for other in range(NODES)))
    (worker,) = found.workers(names.PREFILL)
    assert not worker.ready and worker.starting


def test_a_group_is_ready_since_the_last_of_its_ranks_is() -> None:
    late = rank("chat-0", 1)
    late["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:09:00Z"
    (worker,) = seen(rank("chat-0", 0), late).pods
    assert worker.ready_since_seconds == worker.created_at_seconds + 540


def test_a_rank_that_cannot_start_holds_its_group_up() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    stuck = rank("chat-0", 1, ready=False)
    stuck["status"]["conditions"].append(unschedulable)
    (worker,) = seen(rank("chat-0", 0, ready=False), stuck).pods
    assert worker.stuck


def test_a_group_that_loses_a_rank_is_no_capacity() -> None:
    leaving = rank("chat-0", 1, metadata={"deletionTimestamp": "2026-01-01T01:00:00Z"})
    (worker,) = seen(rank("chat-0", 0), leaving).pods
    assert worker.draining and not worker.ready


def test_followers_whose_leader_is_gone_are_no_workers() -> None:
    assert seen(rank("chat-0", 1), rank("chat-0", 2)).pods == ()
