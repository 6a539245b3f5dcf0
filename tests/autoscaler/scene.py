"""A service whose measurements a test writes itself, tick by tick."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tandem_api import names
from tandem_autoscaler.decide.decision import Decision, Outcome
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import fresh_state
from tandem_autoscaler.fleet.service import Pod, Pool, Service, Targets
from tandem_autoscaler.signals.exposition import parse
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tests.autoscaler.exported import Exported

TICK_SECONDS = 5.0
P, D, W = names.PREFILL, names.DECODE, names.WORKERS


class Scene:
    """Pods by role with an `Exported` each. `tick` decides and, unless told not to, sets the pools."""

    def __init__(
        self, *, prefill: int = 1, decode: int = 1, workers: int = 0, minimum: int = 1, maximum: int = 20,
        settings: Settings | None = None, **service: Any,
    ) -> None:  # fmt: skip
        self.now = 1_000_000.0
        self.settings = settings or Settings()
        self.exported: dict[str, Exported] = {}
        self.pods: dict[str, Pod] = {}
        self.silent: set[str] = set()
        self.made = 0
        counts = {W: workers} if workers else {P: prefill, D: decode}
        self.service = Service(
            **{
                "namespace": "default", "name": "chat", "uid": "u", "generation": 1, "mode": "Auto", "paused": False,
                "disaggregated": not workers, "targets": Targets(1.0, 0.1), "headroom": 0.0,
                "pools": {role: Pool(role, n, minimum, maximum) for role, n in counts.items()}, **service,
            }
        )  # fmt: skip
        for role, count in counts.items():
            for _ in range(count):
                self.add(role)
        self.state = fresh_state(self.service, self.now, self.settings)
        self.outcome = Outcome()

    def add(self, role: str, *, ready: bool = True, stuck: bool = False) -> str:
        self.made += 1
        uid = f"{role}-{self.made}"
        since = self.now - 1000 if ready else None
        self.pods[uid] = Pod(
            "default", uid, uid, "10.0.0.1", role, ready, self.now - 1020, since, stuck=stuck
        )
        self.exported[uid] = Exported()
        return uid

    def set(self, uid: str, **change: Any) -> None:
        self.pods[uid] = replace(self.pods[uid], **change)

    def of(self, role: str) -> list[Exported]:
        return [self.exported[uid] for uid, pod in self.pods.items() if pod.role == role]

    def pool(self, role: str, **change: Any) -> None:
        pools = {**self.service.pools, role: replace(self.service.pools[role], **change)}
        self.service = replace(self.service, pools=pools)

    def replicas(self, role: str) -> int:
        return self.service.pools[role].replicas

    # --- loads, per tick ----------------------------------------------------------------------------------
    def prompts(self, per_second: float, *, seconds: float = 0.2, tokens: float = 1000) -> None:
        """A tick's prompts, shared by the prefill pods that are ready and not silent."""
        pods = [
            uid
            for uid, pod in self.pods.items()
            if pod.role in (P, W) and pod.ready and uid not in self.silent
        ]
        for uid in pods:
            self.exported[uid].prefill(per_second * TICK_SECONDS / len(pods), tokens=tokens, seconds=seconds)

    def overload(self, work: float = 2.0, *, seconds: float = 0.5) -> None:
        """A tick of prompts of `seconds` each, `work` times what the ready prefill pods can do: the rest piles up."""
        for uid, pod in self.pods.items():
            if pod.role in (P, W) and pod.ready and uid not in self.silent:
                exported = self.exported[uid]
                exported.running += (work - 1) * TICK_SECONDS / seconds
                exported.prefill(
                    TICK_SECONDS / seconds, tokens=1000, seconds=seconds * (1 + exported.running)
                )

    def answers(
        self, per_second: float, *, tokens: float = 50, seconds_per_token: float = 0.02, batch: float = 1
    ) -> None:
        """A tick's answers, shared by the decode pods that are ready and not silent."""
        pods = [
            uid for uid, pod in self.pods.items() if pod.role == D and pod.ready and uid not in self.silent
        ]
        for uid in pods:
            each = per_second * TICK_SECONDS / len(pods)
            self.exported[uid].decode(each, tokens=tokens, seconds_per_token=seconds_per_token, batch=batch)

    # --- ticks --------------------------------------------------------------------------------------------
    def snapshot(self) -> Snapshot:
        pods = {
            uid: parse(self.exported[uid].text(), uid=uid, read_at_seconds=self.now)
            for uid, pod in self.pods.items()
            if uid not in self.silent and pod.ip
        }
        return Snapshot(self.now, pods, {uid: "timeout" for uid in self.silent if uid in self.pods})

    def tick(self, *, apply: bool = True, routers: Iterable[PodReading] = ()) -> Outcome:
        service = replace(self.service, pods=tuple(self.pods.values()))
        snapshot = self.snapshot()
        for reading in routers:
            router = Pod(
                "default", reading.uid, reading.uid, "10.0.0.9", names.COMPONENT_ROUTER, True, 0.0, 0.0
            )
            service = replace(service, routers=(*service.routers, router))
            snapshot = replace(
                snapshot, pods={**snapshot.pods, reading.uid: replace(reading, read_at_seconds=self.now)}
            )
        self.state, self.outcome = decide(self.state, service, snapshot, self.settings)
        if apply:
            for role, decision in self.outcome.decisions.items():
                self.pool(role, replicas=decision.target)
                self._remove_beyond(role, decision.target)
        self.now += TICK_SECONDS
        return self.outcome

    def _remove_beyond(self, role: str, target: int) -> None:
        """Let pods go as the operator does: those that do not serve first."""
        pods = sorted(
            (pod for pod in self.pods.values() if pod.role == role), key=lambda pod: (not pod.ready, pod.uid)
        )
        for pod in pods[target:]:
            self.pods.pop(pod.uid), self.exported.pop(pod.uid)

    def decision(self, role: str) -> Decision:
        return self.outcome.decisions[role]

    def settle(self, ticks: int = 20, **loads: float) -> "Scene":
        """Ticks under a steady load whose decisions are not carried out."""
        for _ in range(ticks):
            if loads.get("prompts"):
                self.prompts(loads["prompts"], seconds=loads.get("seconds", 0.2))
                self.answers(loads["prompts"], tokens=loads.get("tokens", 50))
            self.tick(apply=False)
        return self
