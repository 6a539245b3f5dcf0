"""Kubernetes' HorizontalPodAutoscaler on the concurrency of each role's workers.

Source: the autoscaling/v2 defaults and KEP-853, KEP-4951, KEP-5679 (kubernetes/enhancements): d = ceil(N m / target),
nothing within a tolerance of 0.1, up at most max(2 N, N + 4) per period, down to the largest recommendation of 300 s.
The period is 15 s, the API's default (KEP-853 has 60 s).
"""

import math

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.window import Window
from tandem_autoscaler.simulator.view import RoleView

SYNC_SECONDS = 15.0


class Controller:
    """One HorizontalPodAutoscaler object. Call it once per sync period, with one of the two kinds of metric."""

    def __init__(self, *, tolerance: float = 0.1, stabilization_seconds: float = 300.0) -> None:
        self._tolerance = tolerance
        self._recommended = Window(stabilization_seconds)
        self._began = False

    def pods(self, now_seconds: float, role: RoleView, total: float, target: float) -> int:
        """A Pods metric: `total` over the ready pods, `target` per pod.

        Pods that are starting count as idle when the ready ones ask for more, and not at all when they ask for less;
        where that turns the direction round, nothing happens.
        """
        load, counted = total / target, role.ready
        if load > role.ready:
            counted += role.starting
        if role.ready == 0 or (load > role.ready and load < counted):
            return self._limited(now_seconds, role.target, role.target)
        return self._limited(now_seconds, role.target, self._wanted(role.target, counted, load))

    def external(self, now_seconds: float, current: int, load: float) -> int:
        """An External metric with an AverageValue: `load` is the sum over that value; all pods count."""
        return self._limited(now_seconds, current, self._wanted(current, current, load))

    def _wanted(self, current: int, counted: int, load: float) -> int:
        if counted == 0 or abs(load / counted - 1.0) <= self._tolerance + 1e-9:
            return current
        return math.ceil(load - 1e-9)

    def _limited(self, now_seconds: float, current: int, wanted: int) -> int:
        if not self._began:
            self._recommended.add(now_seconds, current)
            self._began = True
        self._recommended.add(now_seconds, wanted)
        if wanted > current:
            return min(wanted, max(2 * current, current + 4))
        return max(1, min(current, int(self._recommended.largest)))


class Hpa:
    """Average concurrency (running and waiting) per worker: 2 for prefill, 0.7 B* for decode."""

    name = "hpa"
    tick_seconds = SYNC_SECONDS

    def __init__(
        self, profile: Profile, *, prefill_concurrency: float = 2.0, decode_share: float = 0.7, scale: float = 1.0
    ) -> None:  # fmt: skip
        """`scale` multiplies both targets: the dial for tuning."""
        self._prefill_target = scale * prefill_concurrency
        self._decode_target = scale * decode_share * profile.batch
        self._prefill, self._decode = Controller(), Controller()

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        now = view.now_seconds
        return Targets(
            self._prefill.pods(now, view.prefill, concurrency(view.prefill), self._prefill_target),
            self._decode.pods(now, view.decode, concurrency(view.decode), self._decode_target),
        )


def concurrency(role: RoleView) -> float:
    return float(role.running.sum() + role.waiting.sum())
