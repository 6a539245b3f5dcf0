"""An API server in memory: versions, uids, preconditions, grace, owner references, watches.

It has the semantics that the operator relies on and no clock of its own. Objects are never changed in place, so that a
watch may hold what it has seen; what goes out is a copy, because the World writes into what it is given.

`SimulatedCluster` is the server, asked directly by everybody who is not under test (the user, kubelets, controllers).
`Connection` is the operator's way to it: the `Cluster` port, with everything that may happen to a request on the way.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tandem_api import names
from tandem_api.kubernetes.cluster import (
    DEPLOYMENT,
    EVENT,
    INFERENCE_SERVICE,
    POD,
    WORKER_POOL,
    ApiError,
    Conflict,
    Kind,
    Manifest,
    Missing,
    Rejected,
    Unavailable,
)
from tandem_operator.observe.timestamp import format_time
from tandem_operator.watch.kinds import WATCHED

Place = tuple[str, str]  # plural, name; there is one namespace
NAMESPACE = "team"
_COUNTED_GENERATIONS = frozenset({DEPLOYMENT.plural, INFERENCE_SERVICE.plural, WORKER_POOL.plural})
_FINISHED = ("Succeeded", "Failed")


def copied(value: Any) -> Any:
    """A deep copy of plain JSON, several times as fast as copy.deepcopy."""
    if isinstance(value, dict):
        return {key: copied(child) for key, child in value.items()}
    if isinstance(value, list):
        return [copied(child) for child in value]
    return value


def merged(live: Any, patch: Any) -> Any:
    """RFC 7386: None removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(live) if isinstance(live, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def labels_of(manifest: Manifest) -> dict[str, str]:
    return manifest["metadata"].get("labels") or {}


def gpus_held(pod: Manifest) -> int:
    """What the scheduler has set aside for it; a finished pod has given its devices back."""
    if (pod.get("status") or {}).get("phase") in _FINISHED:
        return 0
    return sum(
        int((container.get("resources") or {}).get("limits", {}).get(names.GPU_RESOURCE, 0))
        for container in pod["spec"]["containers"]
    )


@dataclass(eq=False)
class Watch:
    """One stream per kind, in order; what has not been delivered yet is the staleness of its reader."""

    queues: dict[str, deque[tuple[str, Manifest]]] = field(
        default_factory=lambda: {kind.plural: deque() for kind in WATCHED}
    )

    def tell(self, plural: str, type_: str, manifest: Manifest) -> None:
        if plural in self.queues:
            self.queues[plural].append((type_, manifest))


class SimulatedCluster:
    """`clock` gives Unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.objects: dict[Place, Manifest] = {}
        self.watches: list[Watch] = []
        # GPUs that a ResourceQuota of the namespace admits; None: there is no quota.
        self.quota: int | None = None
        # Of the last write that changed anything.
        self.version = 0

    # --- reading -----------------------------------------------------------------------------------------
    def get(self, kind: Kind, name: str) -> Manifest | None:
        """As it is stored: not to be changed."""
        return self.objects.get((kind.plural, name))

    def all(self, kind: Kind) -> list[Manifest]:
        return [item for (plural, _), item in sorted(self.objects.items()) if plural == kind.plural]

    def listed(self, kind: Kind) -> list[Manifest]:
        """As a watching client lists it."""
        selected = WATCHED.get(kind)
        return [copied(item) for item in self.all(kind) if selected is None or _managed(item)]

    # --- writing -----------------------------------------------------------------------------------------
    def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        if (kind.plural, metadata["name"]) in self.objects:
            raise Conflict(f"{kind.plural} {metadata['name']!r} already exists", status=409)
        if kind == POD and self.quota is not None:
            asked = gpus_held(manifest)
            used = sum(map(gpus_held, self.all(POD)))
            if asked and used + asked > self.quota:
                raise Rejected(
                    f"exceeded quota: gpus, requested: {asked}, used: {used}, limited: {self.quota}",
                    status=403,
                )
        made = copied(manifest)
        made["metadata"].setdefault("namespace", NAMESPACE)
        made["metadata"]["uid"] = f"uid-{self._next()}"
        made["metadata"]["creationTimestamp"] = format_time(self.clock())
        if kind.plural in _COUNTED_GENERATIONS:
            made["metadata"]["generation"] = 1
        return self._store(kind, made)

    def apply(self, kind: Kind, manifest: Manifest, subresource: str | None = None) -> Manifest:
        """Server-side apply where one manager owns all that it names."""
        metadata = manifest["metadata"]
        live = self.get(kind, metadata["name"])
        if live is None:
            if subresource is not None:
                raise Missing(f"{kind.plural} {metadata['name']!r} not found", status=404)
            return self.create(kind, manifest)
        self._check(kind, live, metadata)
        if subresource == "status":
            return self._store(kind, {**live, "status": copied(manifest["status"])})
        kept = {
            key: live["metadata"][key]
            for key in ("uid", "creationTimestamp", "generation", "deletionTimestamp", "resourceVersion")
            if key in live["metadata"]
        }
        changed = copied(manifest)
        changed["metadata"].update(kept)
        if "status" in live:
            changed["status"] = live["status"]
        return self._store(kind, changed)

    def update(self, kind: Kind, manifest: Manifest) -> Manifest:
        """As a controller beside the operator writes it: whole, and over whatever was there."""
        assert (kind.plural, manifest["metadata"]["name"]) in self.objects
        return self._store(kind, manifest)

    def patch(self, kind: Kind, name: str, merge: Manifest) -> Manifest:
        live = self.get(kind, name)
        if live is None:
            raise Missing(f"{kind.plural} {name!r} not found", status=404)
        self._check(kind, live, merge.get("metadata") or {})
        return self._store(kind, merged(live, merge))

    def delete(
        self, kind: Kind, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        """A pod that runs is only marked: its kubelet ends it. Everything else goes at once."""
        live = self.get(kind, name)
        if live is None:
            raise Missing(f"{kind.plural} {name!r} not found", status=404)
        self._check(kind, live, {"uid": uid, "resourceVersion": resource_version})
        runs = kind == POD and "nodeName" in live["spec"] and live["status"].get("phase") not in _FINISHED
        if not runs:
            self.remove(kind, name)
        elif "deletionTimestamp" not in live["metadata"]:
            grace = live["spec"].get("terminationGracePeriodSeconds", 30)
            gone_by = format_time(self.clock() + grace)
            self._store(kind, {**live, "metadata": {**live["metadata"], "deletionTimestamp": gone_by}})

    def remove(self, kind: Kind, name: str) -> None:
        """It is gone now."""
        live = self.objects.pop((kind.plural, name))
        last = {
            **live,
            "metadata": {**live["metadata"], "resourceVersion": self._next()},
        }
        self._tell(kind, "DELETED", last)

    def touch(self, kind: Kind, name: str) -> None:
        """Somebody else writes something that does not matter."""
        live = self.objects[(kind.plural, name)]
        annotations = {**(live["metadata"].get("annotations") or {}), "touched": self._next()}
        self._store(kind, {**live, "metadata": {**live["metadata"], "annotations": annotations}})

    def collect_garbage(self) -> None:
        """What belongs to an owner that is gone goes too."""
        uids = {item["metadata"]["uid"] for item in self.objects.values()}
        for (plural, name), item in sorted(self.objects.items()):
            owners = [reference["uid"] for reference in item["metadata"].get("ownerReferences") or []]
            if owners and not uids.intersection(owners) and "deletionTimestamp" not in item["metadata"]:
                self.delete(_KINDS[plural], name)

    # --- inside ------------------------------------------------------------------------------------------
    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    @staticmethod
    def _check(kind: Kind, live: Manifest, precondition: Manifest) -> None:
        for key in ("uid", "resourceVersion"):
            asked = precondition.get(key)
            if asked and asked != live["metadata"][key]:
                raise Conflict(
                    f"Precondition failed: {kind.plural} {live['metadata']['name']!r} has another {key}",
                    status=409,
                )

    def _store(self, kind: Kind, manifest: Manifest) -> Manifest:
        """A write that changes nothing is none: no new version, no event."""
        place = (kind.plural, manifest["metadata"]["name"])
        live = self.objects.get(place)
        if live == manifest:
            return live
        metadata = {**manifest["metadata"], "resourceVersion": self._next()}
        if live is not None and "generation" in metadata and live.get("spec") != manifest.get("spec"):
            metadata["generation"] += 1
        stored = {**manifest, "metadata": metadata}
        if kind != EVENT:
            self.objects[place] = stored
            self._tell(kind, "ADDED" if live is None else "MODIFIED", stored)
        return stored

    def _tell(self, kind: Kind, type_: str, manifest: Manifest) -> None:
        selected = WATCHED.get(kind)
        if kind in WATCHED and (selected is None or _managed(manifest)):
            for watch in self.watches:
                watch.tell(kind.plural, type_, manifest)


_KINDS = {kind.plural: kind for kind in WATCHED}


def _managed(manifest: Manifest) -> bool:
    return labels_of(manifest).get(names.LABEL_MANAGED_BY) == names.MANAGED_BY


# --- the operator's way to it -----------------------------------------------------------------------------
Trouble = Literal["conflict", "throttled", "broken", "unreachable", "answer lost"]
TROUBLES: tuple[Trouble, ...] = ("conflict", "throttled", "broken", "unreachable", "answer lost")


@dataclass(frozen=True)
class Write:
    """One request to write, as it was sent."""

    verb: Literal["create", "apply", "patch", "delete"]
    kind: Kind
    name: str
    body: Manifest


class Connection:
    """The `Cluster` port of one operator process.

    `sent` sees each write as it leaves, `before` and `after` at the moment at which the server does it; `after` also
    what it did (None where nothing is left to see). They are where promises are checked.
    """

    def __init__(
        self,
        server: SimulatedCluster,
        *,
        sent: Callable[[Write], None],
        before: Callable[[Write], None],
        after: Callable[[Write, Manifest | None], None],
    ) -> None:
        self._server, self._sent, self._before, self._after = server, sent, before, after
        # What happens to the next writes; None: nothing.
        self.troubles: deque[Trouble | None] = deque()
        # After so many more writes one stays on its way until it is released; None: none does.
        self.hold_after: int | None = None
        self.held: asyncio.Future[None] | None = None
        # Troubles and delays befall writes of this kind only; None: of any.
        self.aim: Kind | None = None

    async def list(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> list[Manifest]:
        return self._server.listed(kind)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        found = self._server.get(kind, name)
        return None if found is None else copied(found)

    async def create(self, kind: Kind, manifest: Manifest, *, manager: str) -> Manifest:
        write = Write("create", kind, manifest["metadata"]["name"], copied(manifest))
        return await self._send(write, lambda: self._server.create(kind, write.body))

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Literal["status"] | None = None
    ) -> Manifest:
        write = Write("apply", kind, manifest["metadata"]["name"], copied(manifest))
        return await self._send(write, lambda: self._server.apply(kind, write.body, subresource))

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        merge: Manifest,
        *,
        manager: str,
        subresource: Literal["status", "scale"] | None = None,
    ) -> Manifest:
        write = Write("patch", kind, name, copied(merge))
        return await self._send(write, lambda: self._server.patch(kind, name, write.body))

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        write = Write("delete", kind, name, {"uid": uid, "resourceVersion": resource_version})

        def act() -> Manifest:
            self._server.delete(kind, name, uid=uid, resource_version=resource_version)
            return self._server.get(kind, name) or {}

        try:
            await self._send(write, act)
        except Missing:
            return

    async def _send(self, write: Write, act: Callable[[], Manifest]) -> Manifest:
        self._sent(write)
        aimed_at = self.aim in (None, write.kind)
        if self.hold_after is not None and aimed_at:
            self.hold_after -= 1
            if self.hold_after < 0:
                self.hold_after = None
                self.held = asyncio.get_running_loop().create_future()
                await self.held
        trouble = self.troubles.popleft() if self.troubles and aimed_at else None
        refusal = self._refusal(write, trouble)
        if refusal is not None:
            raise refusal
        self._before(write)
        answer = act()
        self._after(write, answer or None)
        if trouble == "answer lost":
            raise Unavailable("the API server cannot be reached: the connection was closed")
        return copied(answer)

    def _refusal(self, write: Write, trouble: Trouble | None) -> ApiError | None:
        match trouble:
            case "conflict":
                # Told of objects that are there only, when another hand was faster.
                if write.verb == "create" or self._server.get(write.kind, write.name) is None:
                    return None
                self._server.touch(write.kind, write.name)
                return Conflict(
                    f"{write.kind.plural} {write.name!r}: the object has been modified", status=409
                )
            case "throttled":
                return Unavailable("too many requests", status=429, after_seconds=2.0)
            case "broken":
                return Unavailable("etcdserver: request timed out", status=500)
            case "unreachable":
                return Unavailable("the API server cannot be reached: timeout")
        return None
