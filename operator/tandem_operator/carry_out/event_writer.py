"""Kubernetes Events about a service: one for one decision, none twice within five minutes."""

import hashlib
import logging
from collections.abc import Callable

from tandem_api import names
from tandem_api.kubernetes.cluster import EVENT, ApiError, Cluster, Manifest
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.timestamp import format_micro_time
from tandem_operator.plan.actions import Notice

_log = logging.getLogger(__name__)

_REPEAT_SECONDS = 300.0
_NOTE_LIMIT = 1000  # bytes; the API server refuses more than 1 kB


class EventWriter:
    """Remembers what it has said. `instance` names this process."""

    def __init__(self, cluster: Cluster, *, instance: str, clock: Callable[[], float]) -> None:
        self._cluster, self._instance, self._clock = cluster, instance, clock
        self._said: dict[tuple[str, str, str], float] = {}

    async def write(self, observed: Observed, notice: Notice) -> None:
        """Best effort: a lost event is no reason to repeat a plan."""
        now = self._clock()
        self._said = {said: at for said, at in self._said.items() if now - at < _REPEAT_SECONDS}
        what = (observed.uid, str(notice.reason), notice.message)
        if what in self._said:
            return
        self._said[what] = now
        try:
            await self._cluster.create(
                EVENT, self._manifest(observed, notice, now), manager=names.FIELD_MANAGER_OPERATOR
            )
        except ApiError as error:
            _log.info("an event could not be written: %s", error)

    def _manifest(self, observed: Observed, notice: Notice, now: float) -> Manifest:
        key = f"{observed.uid}/{notice.reason}/{notice.message}/{now}"
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "name": f"{observed.name}.{hashlib.sha256(key.encode()).hexdigest()[:16]}",
                "namespace": observed.namespace,
            },
            "eventTime": format_micro_time(now),
            "reportingController": f"{names.GROUP}/operator",
            "reportingInstance": self._instance,
            "action": str(notice.reason),
            "reason": str(notice.reason),
            "type": notice.type,
            "note": notice.message.encode()[:_NOTE_LIMIT].decode(errors="ignore"),
            "regarding": {
                "apiVersion": names.API_VERSION,
                "kind": names.INFERENCE_SERVICE,
                "name": observed.name,
                "namespace": observed.namespace,
                "uid": observed.uid,
            },
        }
