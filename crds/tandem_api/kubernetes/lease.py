"""`Leadership`: exactly one process writes, by a coordination.k8s.io Lease.

The protocol is that of client-go's leader election: a holder renews every `retry_seconds`; another takes over
when it has *watched* the record unchanged for `duration_seconds` on its own clock (clocks of machines are never
compared). The holder begins no write after `renew_deadline_seconds` without a successful renewal, and what it has
begun ends within `write_seconds`, on its side and on the server's. Both together are shorter than `duration_seconds`,
so that two never write at once.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tandem_api.kubernetes.cluster import LEASE, ApiError, Cluster, Conflict

_log = logging.getLogger(__name__)

DURATION_SECONDS = 20.0
RENEW_DEADLINE_SECONDS = 12.0
RETRY_SECONDS = 2.0
# The time limit of every write to the API server (`client.py`).
WRITE_SECONDS = 6.0


class Leadership:
    """One candidate. `await acquire()`, then run `hold()` beside the work and stop the work when it returns."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration_seconds: float = DURATION_SECONDS,
        renew_deadline_seconds: float = RENEW_DEADLINE_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        write_seconds: float = WRITE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        if not retry_seconds < renew_deadline_seconds:
            raise ValueError("retry < renew deadline, or the lease would be lost between two renewals")
        if not renew_deadline_seconds + write_seconds < duration_seconds:
            raise ValueError("renew deadline + write < duration, or two could lead at once")
        self._cluster = cluster
        self._namespace, self._name, self.identity = namespace, name, identity
        self._duration = duration_seconds
        self._renew_deadline = renew_deadline_seconds
        self._retry = retry_seconds
        self._clock, self._sleep = clock, sleep
        self._renewed_at: float | None = None
        # What we last saw of another's record, and when we first saw it so.
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0

    @property
    def leading(self) -> bool:
        """True while this process may write. Ask before every write."""
        return self._renewed_at is not None and self._clock() - self._renewed_at < self._renew_deadline

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while not await self._try():
            await self._sleep(self._retry)
        _log.info("leading as %s by lease %s/%s", self.identity, self._namespace, self._name)

    async def hold(self) -> None:
        """Renew until leadership is lost; returns then."""
        while True:
            await self._sleep(self._retry)
            if not await self._try() and not self.leading:
                self._renewed_at = None
                _log.warning("lost the lease %s/%s", self._namespace, self._name)
                return

    async def release(self) -> None:
        """Give the lease up, so that a successor need not wait. Best effort."""
        if not self.leading:
            return
        self._renewed_at = None
        try:
            lease = await self._cluster.get(LEASE, self._namespace, self._name)
            if lease and lease["spec"].get("holderIdentity") == self.identity:
                await self._write(lease, holder="")
        except ApiError as error:
            _log.info("the lease could not be released: %s", error)

    async def _try(self) -> bool:
        """One attempt to get or keep the lease; True when it succeeded. An API error is a failed attempt."""
        started = self._clock()
        try:
            # A renewal that hangs past the deadline must count as failed, not as pending.
            async with asyncio.timeout(self._renew_deadline):
                lease = await self._cluster.get(LEASE, self._namespace, self._name)
                if lease is None:
                    await self._create()
                else:
                    spec = lease.get("spec", {})
                    holder = spec.get("holderIdentity") or ""
                    if holder not in ("", self.identity) and not self._expired(spec):
                        self._renewed_at = None
                        return False
                    await self._write(lease, holder=self.identity)
        except Conflict:
            return False
        except (ApiError, TimeoutError) as error:
            _log.warning("the lease %s/%s could not be renewed: %s", self._namespace, self._name, error)
            return False
        self._renewed_at = started
        return True

    def _expired(self, spec: dict[str, Any]) -> bool:
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_at = record, self._clock()
        return self._clock() - self._seen_at >= float(spec.get("leaseDurationSeconds") or self._duration)

    def _spec(self, holder: str, *, transitions: int) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(self._duration),
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _create(self) -> None:
        manifest = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(self.identity, transitions=0),
        }
        await self._cluster.create(LEASE, manifest, manager=self._name)

    async def _write(self, lease: dict[str, Any], *, holder: str) -> None:
        spec = lease.get("spec", {})
        changed = holder != spec.get("holderIdentity")
        merge = {
            # The precondition that makes this a compare-and-swap: a rival's write in between means 409.
            "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
            "spec": self._spec(holder, transitions=int(spec.get("leaseTransitions") or 0) + changed),
        }
        await self._cluster.patch(LEASE, self._namespace, self._name, merge, manager=self._name)
