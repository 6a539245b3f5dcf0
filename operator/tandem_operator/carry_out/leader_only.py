"""`LeaderOnly`: a Cluster that writes only while this process leads (field case D17)."""

from collections.abc import Callable
from typing import Literal

from tandem_api.kubernetes.cluster import Cluster, Kind, Manifest


class NotLeading(Exception):
    """A write was about to happen without the lease. The process must end, not retry."""


class LeaderOnly:
    """Asks before every write; `wrote` hears of each, for the metrics."""

    def __init__(
        self,
        cluster: Cluster,
        leading: Callable[[], bool],
        wrote: Callable[[str, Kind], None] = lambda verb, kind: None,
    ) -> None:
        self._cluster, self._leading, self._wrote = cluster, leading, wrote

    def _check(self, verb: str, kind: Kind) -> None:
        if not self._leading():
            raise NotLeading(f"no {verb} of {kind.plural}: the lease is lost")
        self._wrote(verb, kind)

    async def list(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> list[Manifest]:
        return await self._cluster.list(kind, namespace=namespace, selector=selector)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        return await self._cluster.get(kind, namespace, name)

    async def create(self, kind: Kind, manifest: Manifest, *, manager: str) -> Manifest:
        self._check("create", kind)
        return await self._cluster.create(kind, manifest, manager=manager)

    async def apply(
        self, kind: Kind, manifest: Manifest, *, manager: str, subresource: Literal["status"] | None = None
    ) -> Manifest:
        self._check("apply", kind)
        return await self._cluster.apply(kind, manifest, manager=manager, subresource=subresource)

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
        self._check("patch", kind)
        return await self._cluster.patch(
            kind, namespace, name, merge, manager=manager, subresource=subresource
        )

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
        self._check("delete", kind)
        await self._cluster.delete(
            kind, namespace, name, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
        )
