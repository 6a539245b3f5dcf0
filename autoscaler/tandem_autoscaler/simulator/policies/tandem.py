"""Ours: the autoscaler's own `decide`, reading what it would scrape from the workers."""

from dataclasses import replace

from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.sizing import decide
from tandem_autoscaler.decide.state import ServiceState, fresh_state
from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.readings import Readings, service_of


class TandemPolicy:
    """One policy serves one fleet. The arguments are those of `spec.autoscaling`; `settings` is for ablations.

    Nothing of the hardware is told: the models start from the priors and learn.
    """

    name = "tandem"
    works_blind = True

    def __init__(
        self, *, tick_seconds: float = 5.0, demand_quantile: float = 0.8, headroom: float | None = None,
        confirm_seconds: float = 60.0, settings: Settings | None = None,
    ) -> None:  # fmt: skip
        self.tick_seconds = tick_seconds
        self._quantile, self._headroom, self._confirm = demand_quantile, headroom, confirm_seconds
        self._settings = settings or Settings(reaction_seconds=2 * tick_seconds)
        self._readings: Readings | None = None
        self._state: ServiceState | None = None

    def step(self, fleet: Fleet) -> Targets:
        if self._readings is None:
            service = replace(
                service_of(fleet), demand_quantile=self._quantile, headroom=self._headroom,
                confirm_seconds=self._confirm, cold_start_seconds=fleet.settings.cold_start_seconds,
            )  # fmt: skip
            self._readings = Readings(fleet, service)
        service, snapshot = self._readings.read()
        if self._state is None:
            self._state = fresh_state(service, snapshot.taken_at_seconds, self._settings)
        self._state, outcome = decide(self._state, service, snapshot, self._settings)
        decisions = outcome.decisions
        return Targets(
            prefill=decisions["prefill"].target if "prefill" in decisions else None,
            decode=decisions["decode"].target if "decode" in decisions else None,
        )
