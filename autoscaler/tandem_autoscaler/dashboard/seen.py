"""What one tick says about one service: frozen values, so that whoever looks cannot touch the loop's own."""

from collections.abc import Mapping
from dataclasses import dataclass

from tandem_api import names
from tandem_autoscaler.decide.decision import Outcome
from tandem_autoscaler.decide.quality import RoleCount, count
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.loop import Entry
from tandem_autoscaler.signals.source import Snapshot


@dataclass(frozen=True)
class Seen:
    """`counts` by role. `write_failed`: the API server's sentence, if it refused."""

    service: Service
    outcome: Outcome
    snapshot: Snapshot | None
    counts: Mapping[str, RoleCount]
    write_failed: str | None

    def target(self, role: str) -> int | None:
        """What was decided, or else the pool as someone else has set it; None without either."""
        decision, pool = self.outcome.decisions.get(role), self.service.pools.get(role)
        if decision is not None:
            return decision.target
        return None if pool is None else pool.replicas

    def gpus(self, role: str) -> int | None:
        """GPUs that the role's pods hold, starting and draining ones too; None where no pool says how many each."""
        pool, counted = self.service.pools.get(role), self.counts[role]
        pods = counted.ready + counted.starting + counted.draining
        return 0 if pods == 0 else None if pool is None else pool.gpus * pods


def seen(entry: Entry) -> Seen:
    """The entry of a tick that has ended."""
    service, snapshot = entry.service, entry.snapshot or Snapshot(0.0)
    history = entry.state.history
    counts = {role: count(service, role, snapshot, history) for role in _roles(service)}
    return Seen(service, entry.outcome, entry.snapshot, counts, entry.write_failed)


def _roles(service: Service) -> list[str]:
    """Those that the mode asks for, whether or not their pools exist yet, and those of a mode before that still end."""
    expected = (names.PREFILL, names.DECODE) if service.disaggregated else (names.WORKERS,)
    ending = {pod.role for pod in service.pods} | set(service.pools)
    return [*expected, *(role for role in names.ROLES if role in ending and role not in expected)]
