"""`CarryOut`: executes a plan, in its order, one write at a time.

The World hears every answer at once, so that the next plan never starts from before our own writes. What the server
refuses for good (a taken name, an invalid template, a quota) comes back as findings; what it cannot do now
(Unavailable) is raised, for the queue to try again.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    INFERENCE_SERVICE,
    POD,
    WORKER_POOL,
    Cluster,
    Conflict,
    Kind,
    Manifest,
    Missing,
    NamespaceEnding,
    Rejected,
    Unavailable,
)
from tandem_operator.carry_out.compare import up_to_date
from tandem_operator.carry_out.event_writer import EventWriter
from tandem_operator.carry_out.status_writer import write_pool_status, write_service_status
from tandem_operator.observe.observed import ChildKey, Observed, Refusal, owned_by
from tandem_operator.observe.timestamp import format_micro_time, format_time
from tandem_operator.plan.actions import (
    Action,
    Apply,
    Create,
    CreatePool,
    Delete,
    Drain,
    Flip,
    Mark,
    Plan,
    Remove,
    SetReplicas,
    Undrain,
)
from tandem_operator.watch.kinds import OPTIONAL
from tandem_operator.watch.world import World

_log = logging.getLogger(__name__)
_MANAGER = names.FIELD_MANAGER_OPERATOR
# Until the server says otherwise, what we have deleted is gone by then at the latest.
_GRACE_SECONDS = 30.0
_NAMESPACE_ENDING_SECONDS = 30.0


class Unanswered(Unavailable):
    """A worker's creation had no answer, so it may have been done. `pod` is its name."""

    def __init__(self, pod: str, cause: Unavailable) -> None:
        super().__init__(str(cause), status=cause.status, after_seconds=cause.after_seconds)
        self.pod = pod


@dataclass
class Findings:
    """What the writes taught that no watch tells."""

    foreign: set[ChildKey] = field(default_factory=set)
    taken_names: set[str] = field(default_factory=set)
    refusals: list[Refusal] = field(default_factory=list)
    # The World took in answers to our own writes; their watch events will be no news to it, so nothing else would
    # bring the next look.
    learned: bool = False
    # Workers whose action was not done: refused, or overtaken by events.
    undone: set[str] = field(default_factory=set)
    # A worker turned up that the plan did not know: how many more are lacking, only the next plan can say.
    overtaken: bool = False
    # A name is held by what an earlier service of this name left behind; it will be free soon.
    look_again_seconds: float | None = None


class CarryOut:
    def __init__(
        self, cluster: Cluster, world: World, events: EventWriter, *, clock: Callable[[], float]
    ) -> None:
        self._cluster, self._world, self._events, self._clock = cluster, world, events, clock
        # (uid, hash) of children that the server stores in other words than ours; asked again, it would not change.
        self._settled: set[tuple[str, str]] = set()

    async def __call__(self, plan: Plan, observed: Observed) -> Findings:
        findings = Findings(foreign=set(observed.foreign), taken_names=set(observed.taken_names))
        try:
            await self._execute(plan, observed, findings)
        except NamespaceEnding:
            # The service goes with its namespace; what can be deleted is being deleted.
            _log.info(
                "%s/%s is left alone: its namespace is being deleted", observed.namespace, observed.name
            )
            return Findings(
                foreign=set(observed.foreign),
                taken_names=set(observed.taken_names),
                refusals=list(observed.refusals),
                look_again_seconds=_NAMESPACE_ENDING_SECONDS,
            )
        return findings

    async def _execute(self, plan: Plan, observed: Observed, findings: Findings) -> None:
        for apply in plan.objects:
            await self._guarded(
                findings,
                apply.kind,
                apply.manifest["metadata"]["name"],
                self._apply(apply, observed, findings),
            )
        for pool in plan.pools:
            await self._pool(pool, observed, findings)
        for mark in plan.marks:
            await self._mark(mark, observed, findings)
        for action in plan.actions:
            if findings.overtaken and isinstance(action, Create):
                findings.undone.add(action.name)
                continue
            await self._act(action, observed, findings)
        for removal in plan.removals:
            await self._remove(removal, observed, findings)
        await self._statuses(plan, observed, findings)
        for notice in plan.events:
            if notice.pod in findings.undone:
                continue
            _log.info("%s/%s %s: %s", observed.namespace, observed.name, notice.reason, notice.message)
            await self._events.write(observed, notice)

    def _take_in(self, findings: Findings, kind: Kind, manifest: Manifest) -> None:
        if self._world.put(kind, manifest) is not None:
            findings.learned = True

    # --- children ----------------------------------------------------------------------------------------
    async def _guarded(self, findings: Findings, kind: Kind, name: str, write: Awaitable[Any]) -> None:
        try:
            await write
        except Rejected as error:
            _log.warning("%s %s is refused: %s", kind.kind, name, error)
            # What a cluster need not have is no part of being ready (plan/gateway.py).
            refused = kind.plural if kind in OPTIONAL else f"{kind.plural}/{name}"
            findings.refusals.append(Refusal(refused, str(error)))

    async def _apply(self, apply: Apply, observed: Observed, findings: Findings) -> None:
        kind, wanted = apply.kind, apply.manifest
        name = wanted["metadata"]["name"]
        live = observed.child(kind, name)
        if live is None:
            # Not in our view: look before writing, for an apply would take over what is somebody else's.
            live = await self._cluster.get(kind, observed.namespace, name)
            if live is not None and not self._is_ours(live, kind, observed, findings):
                return
        if live is not None and live["metadata"].get("deletionTimestamp"):
            if kind in OPTIONAL:
                findings.look_again_seconds = 2.0
            return
        if live is not None and (up_to_date(live, wanted) or self._known_settled(live, wanted)):
            self._take_in(findings, kind, live)
            return
        try:
            applied = await self._cluster.apply(kind, wanted, manager=_MANAGER)
        except Conflict as error:
            _log.info("%s %s: %s; looking again", kind.kind, name, error)
            findings.look_again_seconds = 1.0
            return
        except Missing:
            if kind not in OPTIONAL:
                raise
            message = f"the cluster has no {kind.kind} ({kind.api_version})"
            findings.refusals.append(Refusal(kind.plural, message))
            return
        except Rejected:
            if live is None or not await self._replace_immutable(kind, live, wanted):
                raise
            applied = await self._cluster.apply(kind, wanted, manager=_MANAGER)
        if not up_to_date(applied, wanted):
            self._settled.add(_settled_key(applied, wanted))
        self._take_in(findings, kind, applied)
        _log.info("%s/%s applied %s %s", observed.namespace, observed.name, kind.kind, name)

    async def _replace_immutable(self, kind: Kind, live: Manifest, wanted: Manifest) -> bool:
        """A RoleBinding's reference cannot be changed; the object holds nothing, so it is made anew."""
        if kind.plural != "rolebindings" or live.get("roleRef") == wanted.get("roleRef"):
            return False
        metadata = live["metadata"]
        await self._cluster.delete(kind, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        self._world.remove(kind, live)
        return True

    def _known_settled(self, live: Manifest, wanted: Manifest) -> bool:
        return _settled_key(live, wanted) in self._settled

    def _is_ours(self, live: Manifest, kind: Kind, observed: Observed, findings: Findings) -> bool:
        if owned_by(live, observed.uid):
            return True
        if _left_behind(live, observed):
            findings.look_again_seconds = 2.0
        else:
            findings.foreign.add((kind.plural, live["metadata"]["name"]))
        return False

    async def _pool(self, pool: CreatePool | SetReplicas, observed: Observed, findings: Findings) -> None:
        if isinstance(pool, SetReplicas):
            await self._quietly(
                findings,
                WORKER_POOL,
                self._cluster.patch(
                    WORKER_POOL,
                    observed.namespace,
                    pool.pool,
                    {"spec": {"replicas": pool.replicas}},
                    manager=_MANAGER,
                ),
            )
            return
        name = pool.manifest["metadata"]["name"]
        try:
            self._take_in(
                findings,
                WORKER_POOL,
                await self._cluster.create(WORKER_POOL, pool.manifest, manager=_MANAGER),
            )
        except Conflict:
            live = await self._cluster.get(WORKER_POOL, observed.namespace, name)
            if live is None:
                # It went between the two; nothing else would bring the next look.
                findings.look_again_seconds = 1.0
            elif self._is_ours(live, WORKER_POOL, observed, findings):
                self._take_in(findings, WORKER_POOL, live)
        except Rejected as error:
            findings.refusals.append(Refusal(f"{WORKER_POOL.plural}/{name}", str(error)))

    async def _remove(self, removal: Remove, observed: Observed, findings: Findings) -> None:
        await self._cluster.delete(removal.kind, observed.namespace, removal.name, uid=removal.uid)
        findings.learned = True
        live = observed.child(removal.kind, removal.name)
        if removal.kind in OPTIONAL and live is not None:
            # Nobody watches it, so nobody will tell when it is gone.
            self._world.remove(removal.kind, live)
        else:
            gone_by = format_time(self._clock() + _GRACE_SECONDS)
            self._world.expect_deletion(
                removal.kind, observed.namespace, removal.name, removal.uid, gone_by=gone_by
            )
        _log.info(
            "%s/%s removed %s %s: %s",
            observed.namespace,
            observed.name,
            removal.kind.kind,
            removal.name,
            removal.reason,
        )

    # --- workers -----------------------------------------------------------------------------------------
    async def _act(self, action: Action, observed: Observed, findings: Findings) -> None:
        match action:
            case Create():
                await self._create(action, observed, findings)
            case Drain():
                await self._drain(action, observed, findings)
            case Undrain() | Flip():
                await self._put_back(action, observed, findings)
            case Delete():
                await self._delete(action, observed, findings)

    async def _create(self, action: Create, observed: Observed, findings: Findings) -> None:
        """The leader first; what is not made after it, the next plan sees as missing."""
        for manifest in (action.manifest, *action.others):
            if not await self._create_pod(manifest, action.role, observed, findings):
                return

    async def _create_pod(
        self, manifest: Manifest, role: str, observed: Observed, findings: Findings
    ) -> bool:
        name = manifest["metadata"]["name"]
        try:
            self._take_in(findings, POD, await self._cluster.create(POD, manifest, manager=_MANAGER))
        except Conflict:
            live = await self._cluster.get(POD, observed.namespace, name)
            if live is None:
                findings.look_again_seconds = 1.0
            elif owned_by(live, observed.uid):
                self._take_in(findings, POD, live)
                findings.overtaken = True
            else:
                findings.taken_names.add(name)
                if not _left_behind(live, observed):
                    _log.warning(
                        "pod %s/%s exists and is not Tandem's; another name is used",
                        observed.namespace,
                        name,
                    )
                findings.look_again_seconds = 1.0
            findings.undone.add(name)
        except Rejected as error:
            findings.undone.add(name)
            findings.refusals.append(Refusal(f"{role}:{name}", str(error)))
        except Unavailable as error:
            raise Unanswered(name, error) from error
        return name not in findings.undone

    async def _drain(self, action: Drain, observed: Observed, findings: Findings) -> None:
        merge = {
            "metadata": {
                "uid": action.uid,
                "labels": {names.LABEL_SERVING: None},
                "annotations": {
                    names.ANNOTATION_DRAIN_STARTED: format_micro_time(action.started),
                    names.ANNOTATION_DRAIN_REASON: action.reason,
                    names.ANNOTATION_DRAIN_REVERSIBLE: "true" if action.reversible else None,
                },
            }
        }
        if not await self._patch_pod(action.pod, merge, observed, findings):
            findings.undone.add(action.pod)

    async def _put_back(self, action: Undrain | Flip, observed: Observed, findings: Findings) -> None:
        """Into the router again, in its role or in another: one write, so that it is never in neither."""
        labels: Manifest = {names.LABEL_SERVING: "true"}
        annotations: Manifest = {
            names.ANNOTATION_DRAIN_STARTED: None,
            names.ANNOTATION_DRAIN_REASON: None,
            names.ANNOTATION_DRAIN_REVERSIBLE: None,
        }
        if isinstance(action, Flip):
            labels[names.LABEL_ROLE] = action.role
            # In whole seconds, rounded up: a role must not be kept for less than was promised.
            annotations[names.ANNOTATION_FLIPPED_AT] = format_time(math.ceil(action.at))
        merge = {
            "metadata": {
                "uid": action.uid,
                # Deleted meanwhile, by whomever, it must not be shown to the router again: any change since we looked
                # means looking again.
                "resourceVersion": action.resource_version,
                "labels": labels,
                "annotations": annotations,
            }
        }
        if not await self._patch_pod(action.pod, merge, observed, findings):
            findings.undone.add(action.pod)
            findings.look_again_seconds = 1.0

    async def _mark(self, mark: Mark, observed: Observed, findings: Findings) -> None:
        metadata: Manifest = {"uid": mark.uid}
        if mark.labels:
            metadata["labels"] = dict(mark.labels)
        if mark.annotations:
            metadata["annotations"] = dict(mark.annotations)
        await self._patch_pod(mark.pod, {"metadata": metadata}, observed, findings)

    async def _patch_pod(self, name: str, merge: Manifest, observed: Observed, findings: Findings) -> bool:
        return await self._quietly(
            findings, POD, self._cluster.patch(POD, observed.namespace, name, merge, manager=_MANAGER)
        )

    async def _quietly(self, findings: Findings, kind: Kind, write: Awaitable[Any]) -> bool:
        """Was it written? A target that is gone or was replaced is no failure: its event brings the next plan."""
        try:
            self._take_in(findings, kind, await write)
        except (Missing, Conflict) as error:
            _log.info("skipped, it changed meanwhile: %s", error)
            return False
        return True

    async def _delete(self, action: Delete, observed: Observed, findings: Findings) -> None:
        """All pods of the worker, the leader first: the others outlive it by themselves (`build/shutdown.py`)."""
        seen = next((pod for pod in observed.pods if pod.uid == action.uid), None)
        # Only as it was looked at: a moment later it may serve, by its own start or by another hand.
        version = seen.resource_version or None if seen is not None else None
        ended = [(action.pod, action.uid, version)]
        ended += [(pod.name, pod.uid, None) for pod in observed.others_of(action.pod) if not pod.terminating]
        for name, uid, version in ended:
            try:
                await self._cluster.delete(POD, observed.namespace, name, uid=uid, resource_version=version)
            except Conflict as error:
                _log.info("skipped, it changed meanwhile: %s", error)
                findings.undone.add(name)
                if name == action.pod:
                    findings.look_again_seconds = 1.0
                    return
                continue
            gone_by = format_time(self._clock() + _GRACE_SECONDS)
            findings.learned = True
            self._world.expect_deletion(POD, observed.namespace, name, uid, gone_by=gone_by)

    # --- status ------------------------------------------------------------------------------------------
    async def _statuses(self, plan: Plan, observed: Observed, findings: Findings) -> None:
        for name, status in plan.pool_status.items():
            pool = observed.child(WORKER_POOL, name)
            if pool is None or pool["metadata"].get("deletionTimestamp"):
                continue
            try:
                written = await write_pool_status(self._cluster, pool, status)
            except (Missing, Conflict):
                continue
            if written is not None:
                self._take_in(findings, WORKER_POOL, written)
        if plan.status is None:
            return
        try:
            service = await write_service_status(self._cluster, observed, plan.status)
        except (Missing, Conflict) as error:
            _log.info("status skipped, the service changed meanwhile: %s", error)
            return
        if service is not None:
            self._take_in(findings, INFERENCE_SERVICE, service)


def _settled_key(live: Manifest, wanted: Manifest) -> tuple[str, str]:
    annotations = wanted["metadata"].get("annotations") or {}
    return str(live["metadata"].get("uid")), str(annotations.get(names.ANNOTATION_MANIFEST_HASH))


def _left_behind(live: Manifest, observed: Observed) -> bool:
    """A child of an earlier service of the same name, which the garbage collector is about to take."""
    return any(
        reference.get("kind") == names.INFERENCE_SERVICE
        and reference.get("name") == observed.name
        and reference.get("uid") != observed.uid
        for reference in live["metadata"].get("ownerReferences") or []
    )
