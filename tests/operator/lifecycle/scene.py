"""One service `chat`, two nodes, its traffic and an operator: what a life is played on.

`Scene` has the user's hands and the passing of time; which of it happens, and in which order, a test says. At the end
of each story `come_to_rest` stops all troubles and demands what was asked for.
"""

import asyncio
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    DEPLOYMENT,
    INFERENCE_SERVICE,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    WORKER_POOL,
    Manifest,
)
from tandem_operator.plan.settings import Settings
from tests.operator.fleet import START
from tests.operator.lifecycle.operator_process import OperatorProcess
from tests.operator.lifecycle.promises import Kept, Wish, is_member, is_worker, members
from tests.operator.lifecycle.simulated_cluster import SimulatedCluster, gpus_held, labels_of
from tests.operator.lifecycle.simulated_nodes import Nodes, is_routable
from tests.operator.lifecycle.simulated_traffic import Traffic

DEADLINE_SECONDS = 20.0
# Shorter than by default, so that a life is not all waiting.
SETTINGS = Settings(
    kv_lease_seconds=5.0, replace_failed_seconds=4.0, look_again_seconds=10.0, room_settle_seconds=3.0
)
RESYNC_SECONDS = 300.0
QUIET_PASSES = 50
# A write that is on its way this long gets there.
LONGEST_ANSWER_SECONDS = 4.0
# From the last trouble to rest; the longest of some thousand lives took 29. A rollout is the longest way: one worker
# after the other, a few passes to start the new one, and one a second while the old one drains.
MOST_PASSES = 100
KEY = ("team", "chat")
ROLES = {"Colocated": ("workers",), "Disaggregated": ("prefill", "decode")}


class Scene:
    """`wish` is the spec in the user's drawer: the roles of both modes, of which one is in force."""

    def __init__(self, *, mode: str = "Colocated", gpus: int = 4, **wish: Any) -> None:
        self.now = START
        self._loop = asyncio.new_event_loop()
        self.server = SimulatedCluster(lambda: self.now)
        self.traffic = Traffic(self.server)
        self.promises = Kept(self.server, self.traffic, deadline_seconds=DEADLINE_SECONDS)
        self.nodes = Nodes(self.server, {"node-a": gpus, "node-b": 3})
        role = {"minReplicas": 1, "maxReplicas": 3}
        self.wish: dict[str, Any] = {
            "mode": mode, "gpuBudget": None, "engine": {},
            "prefill": role, "decode": role, "workers": role, **wish,
        }  # fmt: skip
        self.make_service()
        self.predecessor: OperatorProcess | None = None
        self.operator = self._process()

    def _process(self) -> OperatorProcess:
        return OperatorProcess(self.server, self.traffic, self.promises, settings=SETTINGS, loop=self._loop)

    def close(self) -> None:
        for process in (self.predecessor, self.operator):
            if process is not None:
                process.end()
        self._loop.close()

    # --- the user ----------------------------------------------------------------------------------------
    def _spec(self) -> Manifest:
        wish = self.wish
        return {
            "mode": wish["mode"],
            "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "name": "llama"},
            "autoscaling": {"mode": "External"},
            "drain": {"deadline": f"{DEADLINE_SECONDS:g}s"},
            "engine": wish["engine"],
            **({} if wish["gpuBudget"] is None else {"gpuBudget": wish["gpuBudget"]}),
            **{role: dict(wish[role]) for role in ROLES[wish["mode"]]},
        }

    def edit(self, **changes: Any) -> None:
        """Top-level fields by their wire names."""
        self.wish.update(changes)
        live = self.server.get(INFERENCE_SERVICE, "chat")
        if live is not None:
            self.server.update(INFERENCE_SERVICE, {**live, "spec": self._spec()})

    def edit_role(self, role: str, **changes: Any) -> None:
        self.edit(**{role: {**self.wish[role], **changes}})

    def scale(self, role: str, replicas: int) -> None:
        if self.server.get(WORKER_POOL, f"chat-{role}") is not None:
            self.server.patch(WORKER_POOL, f"chat-{role}", {"spec": {"replicas": replicas}})

    def make_service(self) -> None:
        if self.server.get(INFERENCE_SERVICE, "chat") is None:
            made = self.server.create(
                INFERENCE_SERVICE,
                {
                    "apiVersion": names.API_VERSION,
                    "kind": names.INFERENCE_SERVICE,
                    "metadata": {"name": "chat"},
                    "spec": self._spec(),
                },
            )
            self.promises.service_made(made)

    def delete_service(self) -> None:
        if self.server.get(INFERENCE_SERVICE, "chat") is not None:
            self.server.delete(INFERENCE_SERVICE, "chat")

    # --- what is there -----------------------------------------------------------------------------------
    def pods(self) -> list[Manifest]:
        """The service's own, of whatever age."""
        return [pod for pod in self.server.all(POD) if is_worker(pod)]

    def names(self, role: str | None = None) -> list[str]:
        """Of the members, all or of one role."""
        return [
            pod["metadata"]["name"]
            for pod in self.pods()
            if is_member(pod) and role in (None, labels_of(pod)[names.LABEL_ROLE])
        ]

    def gpus(self) -> int:
        return sum(map(gpus_held, self.server.all(POD)))

    # --- time --------------------------------------------------------------------------------------------
    def pass_time(self, seconds: float) -> None:
        self.traffic.note()
        self.now += seconds

    def world_goes_on(self) -> None:
        """Each pod and each controller does its next thing."""
        self.server.collect_garbage()
        for pod in self.pods():
            self.nodes.advance(pod)
        self.nodes.roll_deployments()

    def round(self) -> None:
        """What a quiet second brings: everything goes on by itself, and the operator hears of it."""
        self.world_goes_on()
        self.operator.hear_everything()
        self.operator.work()

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.round()
            self.pass_time(1.0)
            if self.operator.waited_seconds >= LONGEST_ANSWER_SECONDS:
                self.operator.answer()

    # --- processes ---------------------------------------------------------------------------------------
    def restart(self) -> None:
        """The process is killed and another is started; its write in flight is lost."""
        self.operator.end()
        self.operator = self._process()

    def hand_over(self) -> None:
        """The lease has passed on; one write of the predecessor may still be on its way."""
        self.forget_predecessor()
        self.operator.leads = False
        self.operator.connection.hold_after = None
        self.predecessor = self.operator
        self.operator = self._process()

    def forget_predecessor(self) -> None:
        if self.predecessor is not None:
            self.predecessor.answer()
            self.predecessor.end()
            self.predecessor = None

    # --- the end -----------------------------------------------------------------------------------------
    def come_to_rest(self) -> int:
        """All troubles stop; fails where rest, or what was asked for, is not reached. Returns the passes it took."""
        self._stop_troubles()
        began, rounds = self.operator.passes, 0
        while not self._rests():
            spent, rounds = self.operator.passes - began, rounds + 1
            assert max(spent, rounds / 4) <= MOST_PASSES, f"no rest after {spent} passes: {self._picture()}"
        spent = self.operator.passes - began
        self._as_asked()
        written = self.promises.written
        for _ in range(QUIET_PASSES):
            self.pass_time(7.0)
            self.operator.queue.add(KEY)
            assert self.operator.work()
        assert self.promises.written == written, "a fleet at rest is written to"
        return spent

    def _stop_troubles(self) -> None:
        self.forget_predecessor()
        self.operator.connection.troubles.clear()
        self.operator.connection.hold_after = None
        self.operator.answer()
        self.traffic.open.clear()
        self.traffic.deaf.clear()
        self.nodes.stuck.clear()
        self.nodes.find_again()
        self.nodes.gpus = {"node-a": 16, "node-b": 16}
        self.server.quota = None
        self.make_service()
        # A list that is still on its way may be older than what was missed.
        self.operator.end_resync()
        self.operator.begin_resync()
        self.operator.end_resync()

    def _rests(self) -> bool:
        """One round; true once nothing moves and nothing is due soon."""
        version = self.server.version
        self.round()
        moved = self.server.version != version
        due = self.operator.due_in()
        if not moved and (due is None or due > RESYNC_SECONDS):
            return True
        self.pass_time(1.0 if moved else max(1.0, due or 0.0))
        return False

    def _as_asked(self) -> None:
        service = self.server.get(INFERENCE_SERVICE, "chat")
        assert service is not None
        wish, pods, picture = self.promises.wish(service), self.pods(), self._picture()
        assert all(is_member(pod) and is_routable(pod) for pod in pods), picture
        old = [pod for pod in pods if labels_of(pod)[names.LABEL_ROLE] not in wish.limits]
        found: dict[str, int] = {}
        targets: dict[str, int] = {}
        for role, (least, most) in wish.limits.items():
            pool = self.server.get(WORKER_POOL, f"chat-{role}")
            assert pool is not None, picture
            targets[role] = max(least, min(most, pool["spec"]["replicas"]))
            of_role = members(pods, wish.uid, role)
            found[role] = len(of_role)
            hashes = {labels_of(pod)[names.LABEL_TEMPLATE_HASH] for pod in of_role}
            assert hashes <= {wish.hashes[role]}, picture
        if old:
            self._kept_in_the_old_mode(wish, old, targets, found)
        elif wish.budget is None or sum(targets[role] * wish.gpus[role] for role in targets) <= wish.budget:
            assert found == targets, picture
        else:
            self._shared_out(wish, targets, found)
        pools = {f"chat-{role}" for role in wish.limits}
        for kind in (WORKER_POOL, POD_DISRUPTION_BUDGET):
            there = {item["metadata"]["name"] for item in self.server.all(kind)}
            # What an earlier mode left behind goes once the present one serves, which it cannot on so few GPUs.
            assert there == pools or (there > pools and (old or not wish.allows_minima)), picture
        assert len(self.server.all(SERVICE)) == len(self.server.all(DEPLOYMENT)) == 1
        status = service["status"]
        assert status["observedGeneration"] == service["metadata"]["generation"]
        assert status["summary"] == f"{sum(found.values())}/{sum(targets.values())}", picture

    def _kept_in_the_old_mode(
        self, wish: Wish, old: list[Manifest], targets: dict[str, int], found: dict[str, int]
    ) -> None:
        """The new mode does not fit into the budget beside one worker of each old role, and the status says so."""
        picture = self._picture()
        needed = sum(min(targets[role], max(1, wish.limits[role][0])) * wish.gpus[role] for role in targets)
        one_each = {labels_of(pod)[names.LABEL_ROLE]: gpus_held(pod) for pod in old}
        assert wish.budget is not None and needed + sum(one_each.values()) > wish.budget, picture
        if needed <= wish.budget:
            assert set(one_each) in ({"workers"}, {"prefill", "decode"}), (
                "the old mode serves nobody: " + picture
            )
        assert all(found[role] <= targets[role] for role in targets), picture
        service = self.server.get(INFERENCE_SERVICE, "chat")
        assert service is not None
        reasons = {condition["reason"] for condition in service["status"]["conditions"]}
        assert "ModeChangeBlocked" in reasons, picture

    def _shared_out(self, wish: Wish, targets: dict[str, int], found: dict[str, int]) -> None:
        """GPUs are short: none is left over that anybody could use, and every role has its minimum where all can."""
        assert wish.budget is not None
        picture, held = self._picture(), self.gpus()
        if wish.allows_minima:
            assert held <= wish.budget, picture
            assert all(found[role] >= wish.limits[role][0] for role in targets), picture
        for role in targets:
            assert found[role] <= targets[role], picture
            assert found[role] == targets[role] or held + wish.gpus[role] > wish.budget, picture

    def _picture(self) -> str:
        """For the reader of a failure."""
        service = self.server.get(INFERENCE_SERVICE, "chat") or {}
        pods = [
            (pod["metadata"]["name"], pod["metadata"]["labels"], pod["metadata"].get("annotations"),
             pod["metadata"].get("deletionTimestamp"), pod["spec"].get("nodeName"), pod.get("status"))
            for pod in self.pods()
        ]  # fmt: skip
        return f"{service.get('spec')}\n{service.get('status')}\n" + "\n".join(map(str, pods))
