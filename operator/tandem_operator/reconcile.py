"""One pass for one service: observe, ask the engines where it matters, plan, carry out.

NotLeading   the lease is lost: the process ends
ApiError     Unavailable and the like: the queue tries again, with backoff
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import httpx

from tandem_api.kubernetes.cluster import POD, Cluster, Kind
from tandem_operator.carry_out.carry_out import CarryOut, Findings, Unanswered
from tandem_operator.carry_out.router_lists import take_off
from tandem_operator.observe.load import LoadBook, read_loads
from tandem_operator.observe.observe import observe
from tandem_operator.observe.observed import ChildKey, Observed, Refusal, owned_by
from tandem_operator.observe.routing import read_routings
from tandem_operator.plan.plan import plan, wants_load
from tandem_operator.plan.settings import Settings
from tandem_operator.watch.kinds import WATCHED
from tandem_operator.watch.world import ServiceKey, World

_log = logging.getLogger(__name__)
_KINDS: dict[str, Kind] = {kind.plural: kind for kind in WATCHED}


@dataclass
class _Memory:
    """What earlier passes taught about one service that no watch tells."""

    foreign: set[ChildKey] = field(default_factory=set)
    taken_names: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    refusals: tuple[Refusal, ...] = ()
    looked_at: float = 0.0
    routers_asked_at: float = 0.0
    # Addresses of workers at the last look, and of those that have gone since the routers' lists were free of them.
    addresses: frozenset[str] = frozenset()
    former: frozenset[str] = frozenset()


class Reconciler:
    """`clock` gives Unix seconds."""

    def __init__(
        self,
        cluster: Cluster,
        world: World,
        carry_out: CarryOut,
        http: httpx.AsyncClient,
        *,
        settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        self._cluster, self._world, self._carry_out, self._http = cluster, world, carry_out, http
        self._settings, self._clock = settings, clock
        self._book: dict[ServiceKey, LoadBook] = {}
        self._memory: dict[ServiceKey, _Memory] = {}

    async def __call__(self, key: ServiceKey) -> float | None:
        """One pass; returns after how many seconds to look again, or None when only an event can change anything."""
        service = self._world.service(key)
        if service is None:
            self._book.pop(key, None)
            self._memory.pop(key, None)
            return None
        memory = self._memory.setdefault(key, _Memory())
        await self._recheck(key, memory)
        children = self._world.children(key)
        memory.unanswered = {name for name in memory.unanswered if (POD.plural, name) not in children}
        observed = observe(
            service,
            children,
            foreign=memory.foreign,
            taken_names=memory.taken_names,
            unanswered=memory.unanswered,
            refusals=memory.refusals,
        )
        observed = await self._with_loads(key, observed)
        observed = await self._with_routings(memory, observed)
        decided = plan(observed, self._clock(), self._settings)
        try:
            findings = await self._carry_out(decided, observed)
        except Unanswered as error:
            memory.unanswered.add(error.pod)
            raise
        await take_off(self._http, decided.unlists)
        again = self._learn(memory, findings)
        if findings.learned:
            again = 0.0
        waits = [
            wait for wait in (decided.requeue_seconds, findings.look_again_seconds, again) if wait is not None
        ]
        if observed.router_pods:
            waits.append(self._settings.router_check_seconds)
        return min(waits, default=None)

    async def _with_loads(self, key: ServiceKey, observed: Observed) -> Observed:
        book = self._book.setdefault(key, LoadBook())
        asked = wants_load(observed)
        pods = [pod for pod in observed.pods if pod.name in asked]
        loads = await read_loads(self._http, pods) if pods else {}
        now, settle = self._clock(), self._settings.drain_settle_seconds
        book.keep_only(pod.uid for pod in observed.pods)
        quiet = {
            pod.name: book.note(pod, loads.get(pod.name), now=now, settle_seconds=settle) for pod in pods
        }
        return replace(observed, quiet=quiet)

    async def _with_routings(self, memory: _Memory, observed: Observed) -> Observed:
        """With the routers' lists: while a worker leaves, and else once in a while."""
        now = self._clock()
        leaving = any(pod.draining or (pod.terminating and not pod.finished) for pod in observed.pods)
        addresses = frozenset(pod.ip for pod in observed.pods if pod.ip and not pod.finished)
        memory.former = (memory.former | memory.addresses) - addresses
        memory.addresses = addresses
        due = now - memory.routers_asked_at >= self._settings.router_check_seconds
        if not (leaving or due or memory.former) or not observed.router_pods:
            return observed
        memory.routers_asked_at = now
        routings = await read_routings(self._http, observed.router_pods)
        observed = replace(observed, routings=routings, former_addresses=memory.former)
        if routings:
            memory.former &= frozenset(address for routing in routings for address in routing.workers)
        return observed

    async def _recheck(self, key: ServiceKey, memory: _Memory) -> None:
        """Names that somebody else had: are they free by now? Asked before planning, so that no condition flutters."""
        if not (memory.foreign or memory.taken_names):
            return
        if self._clock() - memory.looked_at < self._settings.look_again_seconds:
            return
        memory.looked_at = self._clock()
        service = self._world.service(key)
        uid = service["metadata"]["uid"] if service else ""
        for plural, name in sorted(memory.foreign):
            live = await self._cluster.get(_KINDS[plural], key[0], name)
            if live is None or owned_by(live, uid):
                memory.foreign.discard((plural, name))
        for name in sorted(memory.taken_names):
            if await self._cluster.get(POD, key[0], name) is None:
                memory.taken_names.discard(name)

    def _learn(self, memory: _Memory, findings: Findings) -> float | None:
        """Keep the findings; something new is told in the status at once."""
        news = (
            findings.foreign != memory.foreign
            or findings.taken_names != memory.taken_names
            or tuple(findings.refusals) != memory.refusals
        )
        if findings.foreign - memory.foreign or findings.taken_names - memory.taken_names:
            memory.looked_at = self._clock()
        memory.foreign, memory.taken_names = findings.foreign, findings.taken_names
        memory.refusals = tuple(findings.refusals)
        return 0.0 if news else None
