"""The policies as they run in a service: ours as the autoscaler runs it, the others within the manifest's limits."""

from collections.abc import Mapping
from dataclasses import replace

from tandem_api import names
from tandem_autoscaler.decide.budget import clamp
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Policy, Targets
from tandem_autoscaler.simulator.readings import Readings

_TICK_SECONDS = 5.0  # the autoscaler's own default


class Autoscaler:
    """What `tandem-autoscaler` decides for this very service, from what it would scrape of its workers."""

    name = "tandem"
    tick_seconds = _TICK_SECONDS
    works_blind = True

    def __init__(self, service: Service) -> None:
        self._service = service
        self._settings = Settings(reaction_seconds=2 * _TICK_SECONDS)
        self._readings: Readings | None = None
        self._state: ServiceState | None = None

    def step(self, fleet: Fleet) -> Targets:
        if self._readings is None:
            self._readings = Readings(fleet, self._service)
        seen, snapshot = self._readings.read()
        pools = {
            role: replace(pool, replicas=seen.pools[role].replicas)
            for role, pool in self._service.pools.items()
        }
        service = replace(seen, pools=pools)
        if self._state is None:
            self._state = fresh_state(service, snapshot.taken_at_seconds, self._settings)
        self._state, outcome = decide(self._state, service, snapshot, self._settings)
        wish = {role: decision.target for role, decision in outcome.decisions.items()}
        return Targets(wish.get(names.PREFILL), wish.get(names.DECODE))


class Limited:
    """Another policy, held to minReplicas, maxReplicas and gpuBudget of the service."""

    def __init__(self, policy: Policy, service: Service) -> None:
        self._policy, self._service = policy, service

    @property
    def name(self) -> str:
        return self._policy.name

    @property
    def tick_seconds(self) -> float:
        return self._policy.tick_seconds

    def step(self, fleet: Fleet) -> Targets:
        wish = self._policy.step(fleet)
        prefill, decode = fleet.targets
        targets = {
            names.PREFILL: prefill if wish.prefill is None else wish.prefill,
            names.DECODE: decode if wish.decode is None else wish.decode,
        }
        given = limited(self._service, targets)
        return Targets(given[names.PREFILL], given[names.DECODE])


def limited(service: Service, wish: Mapping[str, int]) -> dict[str, int]:
    """What the manifest leaves of these replicas by role. Its minima fit its budget (`manifest.read`)."""
    pools = service.pools
    given = {role: min(max(count, pools[role].minimum), pools[role].maximum) for role, count in wish.items()}
    if service.gpu_budget is None:
        return given
    gpus = {role: pools[role].gpus for role in given}
    minimum = {role: pools[role].minimum for role in given}
    return clamp(given, gpus, minimum, service.gpu_budget) or minimum
