"""One pass for one service: observe, ask the engines where it matters, plan, carry out.

NotLeading   the lease is lost: the process ends
ApiError     Unavailable and the like: the queue tries again, with backoff
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import httpx

from tandem_api.kubernetes.cluster import (
    ENDPOINT_SLICE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    ApiError,
    Cluster,
    Kind,
)
from tandem_operator.build.engine_args import model_place
from tandem_operator.build.router_deployment import is_told
from tandem_operator.carry_out.carry_out import CarryOut, Findings, Unanswered
from tandem_operator.carry_out.router_lists import put_on, take_off
from tandem_operator.observe.load import LoadBook, read_loads
from tandem_operator.observe.observe import observe
from tandem_operator.observe.observed import ChildKey, Observed, Refusal, owned_by
from tandem_operator.observe.picker import has_ready_endpoint, slices_of
from tandem_operator.observe.routing import read_routings
from tandem_operator.plan.drain import seconds_to_settle
from tandem_operator.plan.gateway import awaited_picker
from tandem_operator.plan.kv_leak import may_strand_kv
from tandem_operator.plan.plan import plan, wants_load
from tandem_operator.plan.settings import Settings
from tandem_operator.watch.kinds import OPTIONAL, WATCHED
from tandem_operator.watch.world import ServiceKey, World

_log = logging.getLogger(__name__)
_KINDS: dict[str, Kind] = {kind.plural: kind for kind in (*WATCHED, *OPTIONAL)}
_CLAIM_SECONDS = 60.0


@dataclass
class _Memory:
    """What earlier passes taught about one service that no watch tells."""

    foreign: set[ChildKey] = field(default_factory=set)
    taken_names: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    refusals: tuple[Refusal, ...] = ()
    looked_at: float = 0.0
    routers_asked_at: float = 0.0
    kv_asked_at: float = 0.0
    # Addresses of workers at the last look, and of those that have gone since the routers' lists were free of them.
    addresses: frozenset[str] = frozenset()
    former: frozenset[str] = frozenset()
    # Uids of the pods that held hardware at the last look, and when it was last seen that one gave its own back.
    holding: frozenset[str] = frozenset()
    freed_at: float | None = None
    # The claim that the model is on, and its access modes when it was last asked for.
    claim: str | None = None
    claim_modes: tuple[str, ...] | None = None
    claim_asked_at: float = 0.0


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
        missing_fields: Callable[[], tuple[str, ...]] = lambda: (),
    ) -> None:
        self._cluster, self._world, self._carry_out, self._http = cluster, world, carry_out, http
        self._settings, self._clock, self._missing_fields = settings, clock, missing_fields
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
        observed = replace(observed, missing_fields=self._missing_fields())
        observed = self._with_freed(memory, observed)
        observed = await self._with_claim(key, memory, observed)
        observed = await self._with_picker(observed)
        observed = await self._with_loads(key, memory, observed)
        observed = await self._with_routings(memory, observed)
        decided = plan(observed, self._clock(), self._settings)
        try:
            findings = await self._carry_out(decided, observed)
        except Unanswered as error:
            memory.unanswered.add(error.pod)
            raise
        await take_off(self._http, decided.unlists)
        await put_on(self._http, decided.enlists)
        again = self._learn(memory, findings)
        if findings.learned:
            again = 0.0
        waits = [
            wait for wait in (decided.requeue_seconds, findings.look_again_seconds, again) if wait is not None
        ]
        if observed.router_pods:
            waits.append(self._settings.router_check_seconds)
        return min(waits, default=None)

    def _with_freed(self, memory: _Memory, observed: Observed) -> Observed:
        """With the moment at which a worker last gave hardware back. What was before the first look is not known."""
        holding = frozenset(
            pod.uid for worker in observed.pods for pod in worker.pods if pod.scheduled and not pod.finished
        )
        if memory.freed_at is None or memory.holding - holding:
            memory.freed_at = self._clock()
        memory.holding = holding
        return replace(observed, freed_at=memory.freed_at)

    async def _with_claim(self, key: ServiceKey, memory: _Memory, observed: Observed) -> Observed:
        """With the access modes of the model's claim, asked once a minute; without, where we may not or it is none."""
        claim = model_place(observed.spec.model.uri).claim if observed.spec is not None else None
        if claim is None:
            return observed
        now = self._clock()
        if memory.claim != claim or now - memory.claim_asked_at >= _CLAIM_SECONDS:
            memory.claim, memory.claim_asked_at, memory.claim_modes = claim, now, None
            try:
                live = await self._cluster.get(PERSISTENT_VOLUME_CLAIM, key[0], claim)
            except ApiError as error:
                _log.info("claim %s/%s: %s", key[0], claim, error)
                live = None
            if live is not None:
                memory.claim_modes = tuple((live.get("spec") or {}).get("accessModes") or ()) or None
        return replace(observed, claim_modes=memory.claim_modes)

    async def _with_picker(self, observed: Observed) -> Observed:
        """With whether the endpoint picker that a route waits for is there; asked only meanwhile."""
        picker = awaited_picker(observed)
        if picker is None:
            return observed
        try:
            slices = await self._cluster.list(
                ENDPOINT_SLICE, namespace=observed.namespace, selector=slices_of(picker)
            )
        except ApiError as error:
            _log.info("endpoints of %s/%s: %s", observed.namespace, picker, error)
            return observed
        return replace(observed, picker_ready=has_ready_endpoint(slices))

    async def _with_loads(self, key: ServiceKey, memory: _Memory, observed: Observed) -> Observed:
        book = self._book.setdefault(key, LoadBook())
        wanted = wants_load(observed)
        asked = wanted | self._due_for_kv(memory, observed)
        loads = await read_loads(self._http, (pod for pod in observed.pods if pod.name in asked))
        now, settle = self._clock(), seconds_to_settle(observed, self._settings)
        book.keep_only(pod.uid for pod in observed.pods)
        pages = {
            pod.name: book.note(pod, loads.get(pod.name), now=now, settle_seconds=settle)
            for pod in observed.pods
        }
        stranded = {name: page.stranded_since for name, page in pages.items() if page.stranded_since}
        # An older reading is none: what the plan has not asked for now, it does not know.
        quiet = {name: page for name, page in pages.items() if name in wanted}
        return replace(observed, quiet=quiet, stranded=stranded)

    def _due_for_kv(self, memory: _Memory, observed: Observed) -> frozenset[str]:
        """Now and then all workers that hand KV over: what one of them never lets go of shows in its own figures."""
        workers = may_strand_kv(observed)
        if not workers or self._clock() - memory.kv_asked_at < self._settings.kv_check_seconds:
            return frozenset()
        memory.kv_asked_at = self._clock()
        return workers

    async def _with_routings(self, memory: _Memory, observed: Observed) -> Observed:
        """With the routers' lists: while a worker leaves, and else once in a while."""
        now = self._clock()
        leaving = any(pod.draining or (pod.terminating and not pod.finished) for pod in observed.pods)
        addresses = frozenset(pod.ip for pod in observed.pods if pod.ip and not pod.finished)
        memory.former = (memory.former | memory.addresses) - addresses
        memory.addresses = addresses
        due = now - memory.routers_asked_at >= self._settings.router_check_seconds
        told = observed.spec is not None and is_told(observed.spec)
        if not (leaving or due or told or memory.former) or not observed.router_pods:
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
