"""The pods of a worker on several nodes when a deletion of one of them fails: none outlives the others for good, and no
follower goes before its leader, whose streams it computes."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD, WORKER_POOL, Manifest
from tests.operator.fleet import START, colocated
from tests.operator.lifecycle.operator_process import OperatorProcess, Promises
from tests.operator.lifecycle.scene import SETTINGS
from tests.operator.lifecycle.simulated_cluster import SimulatedCluster, Trouble, Write
from tests.operator.lifecycle.simulated_nodes import Nodes
from tests.operator.lifecycle.simulated_traffic import Traffic

GROUP = 3


class Groups:
    """Two workers of three nodes each; the clock, the nodes and one operator."""

    def __init__(self) -> None:
        self.now = START
        self._loop = asyncio.new_event_loop()
        self.server = SimulatedCluster(lambda: self.now)
        self.nodes = Nodes(self.server, {"node-a": 96})
        role = {"minReplicas": 1, "maxReplicas": 2, "gpus": 8, "nodes": GROUP}
        self.server.create(
            INFERENCE_SERVICE,
            {"metadata": {"name": "chat"}, "spec": colocated(workers=role, drain={"deadline": "20s"})},
        )
        self.operator = OperatorProcess(
            self.server, Traffic(self.server), Promises(), settings=SETTINGS, loop=self._loop
        )
        self.seconds(6)
        self.scale(2)
        self.seconds(20)
        assert len(self.pods()) == 2 * GROUP

    def close(self) -> None:
        self.operator.end()
        self._loop.close()

    def pods(self) -> list[Manifest]:
        return self.server.all(POD)

    def scale(self, replicas: int) -> None:
        self.server.patch(WORKER_POOL, "chat-workers", {"spec": {"replicas": replicas}})

    def second(self) -> None:
        for pod in self.pods():
            self.nodes.advance(pod)
        self.nodes.roll_deployments()
        self.operator.hear_everything()
        self.operator.work()
        self.now += 1

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.second()


@pytest.fixture
def groups() -> Iterator[Groups]:
    made = Groups()
    yield made
    made.close()


def is_wanted(pod: Manifest | None) -> bool:
    return pod is not None and "deletionTimestamp" not in pod["metadata"]


@pytest.mark.parametrize(
    "which", range(GROUP), ids=["the leader's", "the first follower's", "the last one's"]
)
@pytest.mark.parametrize("trouble", ["conflict", "throttled", "broken", "unreachable", "answer lost"])
def test_every_pod_of_the_group_goes_and_no_follower_before_its_leader(
    groups: Groups, trouble: Trouble, which: int
) -> None:
    connection = groups.operator.connection
    send, deletions = connection._send, 0

    async def meet_trouble(write: Write, act: Callable[[], Manifest]) -> Manifest:
        nonlocal deletions
        if write.verb == "delete" and write.kind == POD:
            deletions += 1
            if deletions == which + 1:
                connection.troubles.append(trouble)
        return await send(write, act)

    connection._send = meet_trouble  # type: ignore[method-assign]
    groups.scale(1)
    for _ in range(60):
        groups.second()
        for leader in {pod["metadata"]["labels"]["tandem.dev/group"] for pod in groups.pods()}:
            if is_wanted(groups.server.get(POD, leader)):
                ranks = [
                    pod for pod in groups.pods() if pod["metadata"]["labels"]["tandem.dev/group"] == leader
                ]
                assert all(map(is_wanted, ranks)), "a follower ended under its leader"
    assert deletions > GROUP - (trouble == "answer lost"), "the trouble met one of them"
    assert len(groups.pods()) == GROUP
    assert len({pod["metadata"]["labels"]["tandem.dev/group"] for pod in groups.pods()}) == 1


@pytest.mark.parametrize("gone", ["leader", "followers"])
def test_what_is_left_of_a_group_that_lost_the_rest_is_ended_too(groups: Groups, gone: str) -> None:
    """Force-deleted by a hand: the others hold GPUs and serve nobody."""
    leader = next(pod for pod in groups.pods() if pod["metadata"]["labels"].get("tandem.dev/rank") == "0")
    name = leader["metadata"]["name"]
    ranks = [pod for pod in groups.pods() if pod["metadata"]["labels"]["tandem.dev/group"] == name]
    before = {pod["metadata"]["uid"] for pod in ranks}
    for pod in ranks:
        if (pod["metadata"]["name"] == name) == (gone == "leader"):
            groups.server.remove(POD, pod["metadata"]["name"])
    groups.seconds(80)
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in groups.pods())
    assert len(groups.pods()) == 2 * GROUP, "and both workers are there again"
