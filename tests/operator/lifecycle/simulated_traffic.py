"""Requests on their way: a router that hears late, engines with work in hand, and readings that may fail."""

from dataclasses import dataclass, field

import httpx

from tandem_api.kubernetes.cluster import POD, Manifest
from tests.operator.lifecycle.simulated_cluster import SimulatedCluster
from tests.operator.lifecycle.simulated_nodes import is_routable, is_running

# How long after a pod's last routable moment the router may still send work to it. The operator's settle time is 3 s,
# of which up to one is lost where the drain's start is written in whole seconds.
ROUTER_LAG_SECONDS = 2.0


@dataclass
class Traffic:
    """By pod uid. `note()` is called before time moves and after each thing that happens."""

    server: SimulatedCluster
    open: dict[str, int] = field(default_factory=dict)
    # Engines whose /metrics does not answer.
    deaf: set[str] = field(default_factory=set)
    _last_routable: dict[str, float] = field(default_factory=dict)

    def note(self) -> None:
        now = self.server.clock()
        running = set()
        for pod in self.server.all(POD):
            uid = pod["metadata"]["uid"]
            if is_running(pod):
                running.add(uid)
                if is_routable(pod):
                    self._last_routable[uid] = now
        # An engine that is gone has lost what it had.
        self.open = {uid: count for uid, count in self.open.items() if uid in running}

    def may_be_sent_work(self, pod: Manifest) -> bool:
        """By a router that may not have heard yet that it left."""
        last = self._last_routable.get(pod["metadata"]["uid"], 0.0)
        return (
            is_running(pod)
            and "deletionTimestamp" not in pod["metadata"]
            and self.server.clock() - last <= ROUTER_LAG_SECONDS
        )

    def reachable(self) -> list[Manifest]:
        return [pod for pod in self.server.all(POD) if self.may_be_sent_work(pod)]

    def arrive(self, pod: Manifest, count: int) -> None:
        uid = pod["metadata"]["uid"]
        self.open[uid] = self.open.get(uid, 0) + count

    async def get(self, url: str, *, timeout: float) -> httpx.Response:  # noqa: ASYNC109 (httpx's own)
        """In place of an httpx.AsyncClient: one engine's /metrics."""
        uid = url.removeprefix("http://").partition(":")[0]
        pod = next((pod for pod in self.server.all(POD) if pod["metadata"]["uid"] == uid), None)
        if pod is None or not is_running(pod) or uid in self.deaf:
            raise httpx.ConnectError("no answer")
        text = f"vllm:num_requests_running {self.open.get(uid, 0)}\nvllm:num_requests_waiting 0\n"
        return httpx.Response(200, text=text)
