"""Ours: the autoscaler's own `decide`, reading what it would scrape from the workers."""

from collections.abc import Callable
from dataclasses import replace

from tandem_api import names
from tandem_autoscaler.decide.decision import Outcome
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.source import Snapshot
from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.readings import Readings, service_of

TICK_SECONDS = 5.0  # the autoscaler's own default


class AutoscalerPolicy:
    """What `tandem-autoscaler` decides for the service that `service_for` makes of the fleet. Serves one fleet.

    Nothing of the hardware is told: the models start from the priors and learn.
    """

    name = "tandem"
    works_blind = True

    def __init__(
        self, service_for: Callable[[Fleet], Service], *, tick_seconds: float = TICK_SECONDS,
        settings: Settings | None = None,
    ) -> None:  # fmt: skip
        self.tick_seconds = tick_seconds
        self._service_for = service_for
        self._settings = settings or Settings(reaction_seconds=2 * tick_seconds)
        self._readings: Readings | None = None
        self._state: ServiceState | None = None
        self.outcome = Outcome()  # of the last step

    def step(self, fleet: Fleet) -> Targets:
        service, snapshot = self._read(fleet)
        if self._state is None:
            self._state = fresh_state(service, snapshot.taken_at_seconds, self._settings)
        self._state, self.outcome = decide(self._state, service, snapshot, self._settings)
        wish = {role: decision.target for role, decision in self.outcome.decisions.items()}
        return Targets(wish.get(names.PREFILL), wish.get(names.DECODE))

    def _read(self, fleet: Fleet) -> tuple[Service, Snapshot]:
        if self._readings is None:
            self._readings = Readings(fleet, self._service_for(fleet))
        return self._readings.read()


class TandemPolicy(AutoscalerPolicy):
    """The arguments are those of `spec.autoscaling`; `settings` is for ablations."""

    def __init__(
        self, *, tick_seconds: float = TICK_SECONDS, demand_quantile: float = 0.85, headroom: float | None = None,
        confirm_seconds: float = 60.0, settings: Settings | None = None,
    ) -> None:  # fmt: skip
        def service_for(fleet: Fleet) -> Service:
            return replace(
                service_of(fleet), demand_quantile=demand_quantile, headroom=headroom,
                confirm_seconds=confirm_seconds, cold_start_seconds=fleet.settings.cold_start_seconds,
            )  # fmt: skip

        super().__init__(service_for, tick_seconds=tick_seconds, settings=settings)
