"""Other policies within the limits of a manifest. Ours keeps them by itself."""

from collections.abc import Mapping

from tandem_api import names
from tandem_autoscaler.decide.budget import clamp
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Policy, Targets


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
