"""One process of the operator: everything that `main` wires together, driven one step at a time.

The World, the queue, the Reconciler, the carry-out and its guard are the real ones; only the endless loops around them
are not run. A pass that waits for an answer of the API server is left waiting, and the world goes on.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import httpx

from tandem_api.kubernetes.cluster import ApiError, Kind, Manifest, Unavailable
from tandem_operator.carry_out.carry_out import CarryOut
from tandem_operator.carry_out.event_writer import EventWriter
from tandem_operator.carry_out.leader_only import LeaderOnly, NotLeading
from tandem_operator.plan.settings import Settings
from tandem_operator.queue.work_queue import WorkQueue
from tandem_operator.reconcile import Reconciler
from tandem_operator.watch.kinds import WATCHED
from tandem_operator.watch.resync import list_everything
from tandem_operator.watch.world import ServiceKey, World
from tests.operator.lifecycle.simulated_cluster import Connection, SimulatedCluster, Watch, Write, copied
from tests.operator.lifecycle.simulated_traffic import Traffic

_GATHER_SECONDS = 0.05
_KINDS = {kind.plural: kind for kind in WATCHED}


class Promises:
    """What is checked at each write; the real ones are in `promises`."""

    def sent(self, process: "OperatorProcess", write: Write) -> None: ...

    def before(self, process: "OperatorProcess", write: Write) -> None: ...

    def after(self, process: "OperatorProcess", write: Write, answer: Manifest | None) -> None: ...


class OperatorProcess:
    """Leads from its birth until `leads` is taken from it."""

    def __init__(
        self,
        server: SimulatedCluster,
        traffic: Traffic,
        promises: Promises,
        *,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._server, self._loop, self._clock = server, loop, server.clock
        self.leads, self.ended = True, False
        self.watch = Watch()
        server.watches.append(self.watch)
        self.connection = Connection(
            server,
            sent=lambda write: promises.sent(self, write),
            before=lambda write: promises.before(self, write),
            after=lambda write, answer: promises.after(self, write, answer),
        )
        cluster = LeaderOnly(self.connection, lambda: self.leads)
        self.world = World()
        self.queue: WorkQueue[ServiceKey] = WorkQueue(server.clock)
        events = EventWriter(cluster, instance="simulated", clock=server.clock)
        self._reconcile = Reconciler(
            cluster,
            self.world,
            CarryOut(cluster, self.world, events, clock=server.clock),
            cast(httpx.AsyncClient, traffic),
            settings=settings,
            clock=server.clock,
        )
        self._pass: asyncio.Task[None] | None = None
        self.passes = 0
        self._began = 0.0
        # What the present pass has begun from.
        self.service_seen: Manifest | None = None
        self.children_seen: Mapping[tuple[str, str], Manifest] = {}
        self._lists: list[tuple[Kind, int, list[Manifest]]] = []
        loop.run_until_complete(list_everything(self.connection, self.world, namespace=None))
        for key in self.world.services():
            self.queue.add(key)

    # --- hearing -----------------------------------------------------------------------------------------
    def _changed(self, key: ServiceKey | None) -> None:
        if key is not None:
            self.queue.add_after(key, _GATHER_SECONDS)

    def hear(self, plural: str, count: int | None = None) -> None:
        """So many events of one kind, or all that wait."""
        waiting = self.watch.queues[plural]
        for _ in range(len(waiting) if count is None else min(count, len(waiting))):
            type_, manifest = waiting.popleft()
            kind, told = _KINDS[plural], copied(manifest)
            self._changed(self.world.remove(kind, told) if type_ == "DELETED" else self.world.put(kind, told))

    def hear_everything(self) -> None:
        for plural in self.watch.queues:
            self.hear(plural)

    def miss(self, plural: str, count: int) -> None:
        """Events that are never heard of."""
        for _ in range(min(count, len(self.watch.queues[plural]))):
            self.watch.queues[plural].popleft()

    def watch_anew(self, plural: str) -> None:
        """410: what was not delivered is gone, and what lives is listed. Nobody tells what has been deleted."""
        self.watch.queues[plural].clear()
        for manifest in self._server.listed(_KINDS[plural]):
            self.watch.tell(plural, "LISTED", manifest)

    def begin_resync(self) -> None:
        """The server has answered, and the answers are on their way."""
        if not self._lists:
            self._lists = [(kind, self.world.mark(), self._server.listed(kind)) for kind in WATCHED]

    def end_resync(self) -> None:
        for kind, since, listing in self._lists:
            self.world.replace(kind, listing, since=since)
        if self._lists:
            self._lists = []
            for key in self.world.services():
                self._changed(key)

    # --- working -----------------------------------------------------------------------------------------
    @property
    def waits_for_an_answer(self) -> bool:
        return self._pass is not None

    @property
    def waited_seconds(self) -> float:
        """Since the pass began that waits for an answer; 0 where none does."""
        return 0.0 if self._pass is None else self._clock() - self._began

    def work(self) -> bool:
        """One pass, if one is due: to its end, or to the write that is held. False when nothing was due."""
        if self.ended:
            return False
        if self._pass is None:
            key = self.queue.take()
            if key is None:
                return False
            self.passes += 1
            self._began = self._clock()
            self.service_seen, self.children_seen = self.world.service(key), self.world.children(key)
            self._pass = self._loop.create_task(self._one_pass(key))
        self._run()
        return True

    def answer(self) -> None:
        """The write that is held reaches the server now."""
        if self.connection.held is not None and self._pass is not None:
            self.connection.held.set_result(None)
            self.connection.held = None
            self._run()

    def end(self) -> None:
        """The process is gone, and with it what it was waiting for."""
        self.ended, self.leads = True, False
        if self.watch in self._server.watches:
            self._server.watches.remove(self.watch)
        if self._pass is not None:
            self._pass.cancel()
            self._loop.run_until_complete(asyncio.wait([self._pass]))
            self._pass = None

    def _run(self) -> None:
        assert self._pass is not None
        while not self._pass.done() and self.connection.held is None:
            self._loop.run_until_complete(_moment())
        if self._pass.done():
            finished, self._pass = self._pass, None
            finished.result()

    async def _one_pass(self, key: ServiceKey) -> None:
        """As `main` takes from the queue."""
        try:
            again = await self._reconcile(key)
        except NotLeading:
            self.ended = True
        except Unavailable as error:
            self.queue.failed(key, after_seconds=error.after_seconds)
        except ApiError:
            self.queue.failed(key)
        else:
            self.queue.done(key)
            if again is not None:
                self.queue.add_after(key, max(again, _GATHER_SECONDS))

    def due_in(self) -> float | None:
        """Seconds until the queue's next key is due; None when it waits for events only."""
        due: dict[Any, float] = self.queue._due
        return max(0.0, min(due.values()) - self._clock()) if due else None


async def _moment() -> None:
    await asyncio.sleep(0)
