"""The loop: list, observe, sample, decide, carry out; every few seconds, while this process leads.

One service's fault never stops the others, and one tick's fault never the next one.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD, WORKER_POOL, ApiError, Cluster, Missing
from tandem_api.reasons import Condition, EventReason, Reason
from tandem_autoscaler.decide.arbiter import share_out
from tandem_autoscaler.decide.decision import Decision, Outcome, Verdict
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.fleet.service import Key, Service
from tandem_autoscaler.signals.source import SignalSource, Snapshot
from tandem_autoscaler.write.events import write_event
from tandem_autoscaler.write.scale import write_scale
from tandem_autoscaler.write.status import news, status_of, write_status

_log = logging.getLogger(__name__)

# A status is written at most this often while no decision changes: a condition may be told so much later.
STATUS_SECONDS = 15.0


class SteadyClock:
    """Seconds since the epoch that never go back: the wall clock at start plus elapsed monotonic time."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._offset + time.monotonic()


@dataclass
class Entry:
    """What the loop knows of one service: the latest of everything, for the writers and the web."""

    service: Service
    state: ServiceState
    outcome: Outcome = field(default_factory=Outcome)
    snapshot: Snapshot | None = None
    write_failed: str | None = None
    status_written_at_seconds: float = float("-inf")
    # What the live status was last compared with, in short, and when. To make a status and to compare it takes a tenth
    # of a decision's time, so while nothing but numbers moves it is done every `STATUS_SECONDS` only.
    compared: object = None
    compared_at_seconds: float = float("-inf")
    # The last recommendation told, and the last block told, so that each is told once.
    recommended: dict[str, tuple[int, int]] = field(default_factory=dict)
    blocked: str | None = None


@dataclass
class Counts:
    """Totals since start, for /metrics."""

    ticks: int = 0
    failed_ticks: int = 0
    failed_services: int = 0
    scale_writes: int = 0
    status_writes: int = 0
    write_errors: int = 0
    timed_ticks: int = 0  # of `tick_seconds`, failed ones included
    tick_seconds: float = 0.0
    last_tick_at_seconds: float | None = None


Watcher = Callable[[Mapping[Key, Entry], Mapping[Key, str], float], None]
"""Told after each tick: the entries, the services that cannot be understood, and the tick's time. It only looks."""


class Autoscaler:
    """Holds the states; `run` ticks until cancelled."""

    def __init__(
        self,
        cluster: Cluster,
        source: SignalSource,
        settings: Settings,
        *,
        namespace: str | None = None,
        identity: str = names.FIELD_MANAGER_AUTOSCALER,
        leading: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] | None = None,
        gpu_budget: int | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._cluster = cluster
        self._watcher = watcher
        self._source = source
        self._settings = settings
        self._namespace = namespace
        self._identity = identity
        self._leading = leading
        self.gpu_budget, self._was_short = gpu_budget, False
        self._clock = clock or SteadyClock()
        self.entries: dict[Key, Entry] = {}
        self.broken: dict[Key, str] = {}
        self.counts = Counts()

    async def run(self, tick_seconds: float) -> None:
        """Tick for ever. A tick that takes longer than the period is followed by the next at once."""
        while True:
            started = time.monotonic()
            try:
                await self.tick()
            except ApiError as error:
                self.counts.failed_ticks += 1
                _log.warning("this tick is skipped: %s", error)
            except Exception:
                self.counts.failed_ticks += 1
                _log.exception("this tick failed")
            took = time.monotonic() - started
            self.counts.timed_ticks += 1
            self.counts.tick_seconds += took
            await asyncio.sleep(max(0.0, tick_seconds - took))

    async def tick(self) -> None:
        """One round over all services. Raises ApiError when the lists cannot be had."""
        services = await self._observe()
        now = self._clock()
        snapshots = await self._source.sample(services, now)
        decided = []
        for service in services:
            try:
                decided.append(self._decide(service, snapshots.get(service.key) or Snapshot(now), now))
            except Exception:
                self.counts.failed_services += 1
                _log.exception("%s/%s: this tick failed", *service.key)
        self._share_out(decided)
        for entry in decided:
            service = entry.service
            try:
                await self._write(entry, now)
            except ApiError as error:
                self.counts.write_errors += 1
                _log.warning("%s/%s: %s", *service.key, error)
            except Exception:
                self.counts.failed_services += 1
                _log.exception("%s/%s: this tick failed", *service.key)
        self.counts.ticks += 1
        self.counts.last_tick_at_seconds = now
        self._tell_watcher(now)

    def _tell_watcher(self, now: float) -> None:
        if self._watcher is None:
            return
        try:
            self._watcher(self.entries, self.broken, now)
        except Exception:  # whoever looks on never stops the loop
            _log.exception("the dashboard could not take over this tick")

    async def _observe(self) -> list[Service]:
        manifests, pools, pods = await asyncio.gather(
            self._cluster.list(INFERENCE_SERVICE, namespace=self._namespace),
            self._cluster.list(WORKER_POOL, namespace=self._namespace),
            self._cluster.list(POD, namespace=self._namespace, selector=names.LABEL_SERVICE),
        )
        services, broken = observe(manifests, pools, pods)
        for key, text in broken.items():
            if self.broken.get(key) != text:
                _log.warning("%s/%s is left alone: %s", *key, text)
        self.broken = broken
        present = {service.key for service in services}
        self.entries = {key: entry for key, entry in self.entries.items() if key in present}
        return services

    def _decide(self, service: Service, snapshot: Snapshot, now: float) -> Entry:
        entry = self.entries.get(service.key)
        if (
            entry is None
            or entry.service.uid != service.uid
            or entry.service.disaggregated != service.disaggregated
        ):
            # A service deleted and made again under the same name shares nothing with the old one.
            entry = Entry(service, fresh_state(service, now, self._settings))
            self.entries[service.key] = entry
        state, outcome = decide(entry.state, service, snapshot, self._settings, wall_seconds=now)
        entry.service, entry.state, entry.snapshot, entry.outcome = service, state, snapshot, outcome
        return entry

    def _share_out(self, decided: list[Entry]) -> None:
        """Cut what all want together to the GPUs that there are.

        A worker that runs is taken from its service only when others were short at the last tick already.
        """
        if self.gpu_budget is None:
            return
        wanted = {entry.service.key: (entry.service, entry.outcome) for entry in decided}
        outcomes, short = share_out(wanted, self.gpu_budget, reclaim=self._was_short)
        self._was_short = short
        for entry in decided:
            entry.outcome = outcomes[entry.service.key]
            for role, decision in entry.outcome.decisions.items():
                # What is remembered as decided is what will be written.
                memory = replace(entry.state.memory(role), target=decision.target)
                entry.state = entry.state.with_memory(role, memory)

    async def _write(self, entry: Entry, now: float) -> None:
        if not self._leading():
            return
        changed = await self._carry_out(entry)
        await self._explain(entry, now, changed=changed)

    async def _carry_out(self, entry: Entry) -> bool:
        """Write the pools that change and say so. True when something changed."""
        service, acted = entry.service, False
        if service.mode == "Auto" and service.sizes_itself:
            entry.recommended.clear()
            for decision in entry.outcome.decisions.values():
                if decision.changes and self._leading():
                    acted |= await self._scale(entry, decision)
        elif service.mode == "Recommend" and service.sizes_itself:
            acted |= await self._recommend(entry)
        else:
            entry.recommended.clear()
        await self._tell_blocked(entry)
        return acted

    async def _scale(self, entry: Entry, decision: Decision) -> bool:
        service = entry.service
        try:
            await write_scale(self._cluster, service, decision)
        except Missing:
            return False  # the pool is gone since it was listed
        except ApiError as error:
            self.counts.write_errors += 1
            text = f"{names.pool_name(service.name, decision.role)}: {error}"
            if entry.write_failed != text:
                _log.warning("%s/%s: the scale could not be written: %s", *service.key, text)
            entry.write_failed = text
            # Not written: the next tick must not take the unchanged pool for someone else's doing.
            memory = entry.state.memory(decision.role)
            entry.state = entry.state.with_memory(decision.role, replace(memory, target=decision.current))
            return False
        entry.write_failed = None
        self.counts.scale_writes += 1
        _log.info("%s/%s: %s", *service.key, decision.message)
        reason = EventReason.SCALED_UP if decision.target > decision.current else EventReason.SCALED_DOWN
        await self._event(service, reason, decision.message)
        return True

    async def _recommend(self, entry: Entry) -> bool:
        told = False
        for role, decision in entry.outcome.decisions.items():
            pair = (decision.current, decision.target)
            if decision.changes and entry.recommended.get(role) != pair:
                await self._event(entry.service, EventReason.SCALE_RECOMMENDED, decision.message)
                told = True
            entry.recommended[role] = pair
        return told

    async def _tell_blocked(self, entry: Entry) -> None:
        limited = entry.outcome.conditions.get(Condition.SCALING_LIMITED)
        blocked = None
        if entry.write_failed is not None:
            blocked = entry.write_failed
        elif limited and limited.reason in (Reason.TOO_FEW_REPLICAS, Reason.GPU_BUDGET_EXCEEDED):
            blocked = limited.message
        if blocked is not None and entry.blocked is None:
            await self._event(entry.service, EventReason.SCALE_BLOCKED, blocked)
        entry.blocked = blocked

    async def _explain(self, entry: Entry, now: float, *, changed: bool) -> None:
        """Write the status when it tells something new."""
        service = entry.service
        conditions = dict(entry.outcome.conditions)
        if service.mode == "Auto" and service.sizes_itself:
            able = Verdict("True", Reason.READY_TO_SCALE, "the pools can be written")
            if entry.write_failed is not None:
                able = Verdict("False", Reason.SCALE_WRITE_FAILED, entry.write_failed)
            conditions[Condition.ABLE_TO_SCALE] = able
        if not changed and now - entry.status_written_at_seconds < STATUS_SECONDS:
            return
        gist = _gist(service, entry.outcome, conditions)
        if not changed and gist == entry.compared and now - entry.compared_at_seconds < STATUS_SECONDS:
            return
        wanted = status_of(service, entry.outcome, conditions, at=datetime.now(UTC))
        if news(service.status, wanted):
            await write_status(self._cluster, service, wanted)
            self.counts.status_writes += 1
            entry.status_written_at_seconds = now
        entry.compared, entry.compared_at_seconds = gist, now

    async def _event(self, service: Service, reason: EventReason, note: str) -> None:
        try:
            await write_event(
                self._cluster, service, reason, note, at=datetime.now(UTC), reporter=self._identity
            )
        except ApiError as error:
            # An event that cannot be written is no reason not to scale.
            self.counts.write_errors += 1
            _log.warning("%s/%s: an event could not be written: %s", *service.key, error)


def _gist(service: Service, outcome: Outcome, conditions: Mapping[str, Verdict]) -> object:
    """What readers are told at once; numbers and the wording of messages may wait."""
    decided = [(role, d.current, d.target, d.why) for role, d in outcome.decisions.items()]
    judged = [(kind, verdict.status, verdict.reason) for kind, verdict in conditions.items()]
    return service.mode, service.generation, decided, judged
