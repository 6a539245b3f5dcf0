"""A service under a load that never stops, and what happens to it meanwhile."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from e2e.demo.stage import NAMESPACE, ROOT, Stage
from e2e.load import Answer, Answers, Traffic, send
from tandem_api import names
from tandem_api.kubernetes.cluster import POD, SERVICE, Cluster

TRAFFIC = Traffic(prompt_tokens=24, output_tokens=48, requests_per_second=1.0)


@dataclass
class Disturbance:
    """One thing that happened, and how the streams that ended meanwhile fared. `detail` is what it showed besides."""

    name: str
    seconds: float = 0.0
    whole: int = 0
    failures: list[str] = field(default_factory=list)
    detail: str = ""

    def row(self) -> dict[str, Any]:
        return {
            "disturbance": self.name, "seconds": round(self.seconds, 1), "whole_streams": self.whole,
            "failed_streams": len(self.failures), "failures": sorted(set(self.failures))[:5], "detail": self.detail,
        }  # fmt: skip


@dataclass
class Lasting:
    """The InferenceService `name` in `namespace`, on real engines."""

    stage: Stage
    cluster: Cluster
    namespace: str
    name: str
    model: str
    endpoint: str = ""
    answers: Answers = field(default_factory=Answers)
    told: list[Disturbance] = field(default_factory=list)

    # --- looking ----------------------------------------------------------------------------------------------
    async def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return await asyncio.to_thread(self.stage.kubectl, *arguments, stdin=stdin, check=check)

    async def pods(self) -> list[dict[str, Any]]:
        """All worker pods, whatever their state."""
        labels = {names.LABEL_SERVICE: self.name, names.LABEL_COMPONENT: names.COMPONENT_WORKER}
        return await self.cluster.list(POD, namespace=self.namespace, selector=names.selector(labels))

    async def workers(self, role: str | None = None, *, serving: bool = True) -> list[dict[str, Any]]:
        """Worker pods that are not being deleted; only those that are ready and in the router when `serving`."""
        return [
            pod
            for pod in await self.pods()
            if "deletionTimestamp" not in pod["metadata"]
            and role in (None, pod["metadata"]["labels"][names.LABEL_ROLE])
            and (not serving or is_serving(pod))
        ]

    async def until(self, probe: Callable[[], Awaitable[Any]], seconds: float, what: str) -> float:
        """Seconds until `probe` is true; asked twice a second. Raises AssertionError after `seconds`."""
        began, seen = time.monotonic(), None
        while time.monotonic() - began < seconds:
            seen = await probe()
            if seen:
                return time.monotonic() - began
            await asyncio.sleep(0.5)
        raise AssertionError(f"{what}: not within {seconds:.0f} s (last seen: {seen!r})")

    async def settled(self, seconds: float, **counts: int) -> float:
        """Until each role has exactly so many serving workers, and no other worker is left."""

        async def as_asked() -> bool:
            pods = await self.pods()
            serving = [pod["metadata"]["labels"][names.LABEL_ROLE] for pod in pods if is_serving(pod)]
            as_counted = all(serving.count(role) == count for role, count in counts.items())
            return as_counted and len(pods) == len(serving) == sum(counts.values())

        return await self.until(as_asked, seconds, f"the workers are {counts}")

    async def find_endpoint(self) -> None:
        """Where this machine reaches it: the embedded cluster's Service addresses are routed here."""
        found = await self.cluster.get(SERVICE, self.namespace, self.name)
        assert found is not None, f"there is no Service {self.name}"
        self.endpoint = f"http://{found['spec']['clusterIP']}/v1"

    # --- doing ------------------------------------------------------------------------------------------------
    async def scale(self, **replicas: int) -> None:
        for role, count in replicas.items():
            pool = names.pool_name(self.name, role)
            await self.kubectl("scale", f"wpool/{pool}", f"--replicas={count}", "-n", self.namespace)

    async def edit(self, spec: dict[str, Any]) -> None:
        """Merge into the InferenceService's spec; None removes."""
        patch = json.dumps({"spec": spec})
        await self.kubectl("patch", "infsvc", self.name, "-n", self.namespace, "--type=merge", "-p", patch)

    async def evict(self, pod: str) -> None:
        """As `kubectl drain` does for each pod of a node; a refusal by the disruption budget raises StageError."""
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.namespace},
        }  # fmt: skip
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        await self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    async def restart(self, deployment: str, namespace: str) -> None:
        await self.kubectl("rollout", "restart", f"deployment/{deployment}", "-n", namespace)

    async def rolled_out(self, deployment: str, namespace: str) -> None:
        await self.kubectl("rollout", "status", f"deployment/{deployment}", "-n", namespace, "--timeout=180s")

    async def restart_operator(self) -> None:
        """Its leader is killed without a word, as by a lost node."""
        await self.kubectl(
            "delete", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=operator", "--force",
            "--grace-period=0", "--wait=false",
        )  # fmt: skip

    # --- the load ---------------------------------------------------------------------------------------------
    async def under_load(
        self, steps: Sequence[tuple[str, Callable[["Lasting"], Awaitable[str]]]], fewest: int
    ) -> None:
        """The steps one after the other under load, and on until `fewest` requests were sent."""
        over = asyncio.Event()
        load = asyncio.create_task(
            send(
                self.endpoint, self.model, TRAFFIC, until=over.is_set, answers=self.answers, most_seconds=3000
            )
        )
        try:
            for name, step in steps:
                await self._one(name, step)
            await self._one("nothing any more", lambda service: service.enough(fewest))
        finally:
            over.set()
            before = len(self.answers.all)
            with contextlib.suppress(ExceptionGroup):
                await load
            if self.told:
                self._count(self.told[-1], self.answers.all[before:])

    async def _one(self, name: str, step: Callable[["Lasting"], Awaitable[str]]) -> None:
        told = Disturbance(name)
        self.told.append(told)
        before, began = len(self.answers.all), time.monotonic()
        try:
            told.detail = await step(self)
        finally:
            told.seconds = time.monotonic() - began
            self._count(told, self.answers.all[before:])

    def report(self, name: str) -> tuple[list[dict[str, Any]], str]:
        """The rows, written to build/e2e/NAME too, and the table of them."""
        rows = [told.row() for told in self.told]
        path = ROOT / "build" / "e2e" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows, indent=2) + "\n")
        return rows, table(rows)

    @staticmethod
    def _count(told: Disturbance, answers: list[Answer]) -> None:
        told.failures += [answer.failure for answer in answers if answer.failure is not None]
        told.whole += sum(answer.failure is None for answer in answers)

    async def enough(self, fewest: int) -> str:
        """Until so many requests have been sent since the load began."""

        async def sent() -> bool:
            return self.answers.sent >= fewest

        await self.until(sent, 3000, f"{fewest} requests are sent")
        return ""


def is_serving(pod: dict[str, Any]) -> bool:
    """Ready, wanted, and shown to the router."""
    conditions = pod.get("status", {}).get("conditions") or []
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    shown = pod["metadata"]["labels"].get(names.LABEL_SERVING) == "true"
    return ready and shown and "deletionTimestamp" not in pod["metadata"]


def age_at_ready(pod: dict[str, Any]) -> float:
    """Seconds from a pod's creation to its being ready: its cold start."""
    ready = next(item for item in pod["status"]["conditions"] if item["type"] == "Ready")
    made, served = map(
        datetime.fromisoformat, (pod["metadata"]["creationTimestamp"], ready["lastTransitionTime"])
    )
    return (served - made).total_seconds()


def table(rows: list[dict[str, Any]]) -> str:
    """As text, a row a line, and below it how streams failed."""
    lines = [f"{'disturbance':42}{'seconds':>8}{'whole':>7}{'failed':>7}"]
    for row in rows:
        figures = f"{row['seconds']:8.0f}{row['whole_streams']:7}{row['failed_streams']:7}"
        lines.append(f"{row['disturbance']:42}{figures}  {row['detail']}".rstrip())
        lines += [f"    {failure}" for failure in row["failures"]]
    return "\n".join(lines)
