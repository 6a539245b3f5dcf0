"""Knative's pod autoscaler on concurrency.

Source: knative/serving pkg/autoscaler/scaling/autoscaler.go: every 2 s the mean concurrency of 60 s (stable) and of 6 s
(panic) over a target of 0.7 x the container's concurrency, rounded up, within [floor(ready / 2), ceil(1000 ready)].
Panic when the panic recommendation is at least twice the ready pods; it ends after 60 s below that, and until then
nothing shrinks. With `scale-down-delay: 5m`, without which it thrashes on workers that start slowly.
"""

import math

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.hpa import concurrency
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.window import Window

TICK_SECONDS = 2.0
STABLE_SECONDS = 60.0
PANIC_SECONDS = 6.0
PANIC_THRESHOLD = 2.0
UTILISATION = 0.7
MOST_UP, MOST_DOWN = 1000.0, 2.0


class Autoscaler:
    """One revision's autoscaler. `target`: concurrency per pod, utilisation included."""

    def __init__(self, target: float, *, scale_down_delay_seconds: float = 300.0, fewest: int = 1) -> None:
        self._target, self._fewest = target, fewest
        self._stable, self._panic = Window(STABLE_SECONDS), Window(PANIC_SECONDS)
        self._delayed = Window(scale_down_delay_seconds)
        self._panic_since: float | None = None
        self._most_in_panic = 0
        self._began = False

    def replicas(self, now_seconds: float, ready: int, total_concurrency: float) -> int:
        pods = max(1, ready)
        if not self._began:
            # More than one pod at the start: as if in panic, so that missing history does not shrink it.
            self._began = True
            if ready > 1:
                self._panic_since, self._most_in_panic = now_seconds, ready
        self._stable.add(now_seconds, total_concurrency)
        self._panic.add(now_seconds, total_concurrency)
        most, least = math.ceil(MOST_UP * pods), math.floor(pods / MOST_DOWN)
        stable, panic = (math.ceil(window.mean / self._target) for window in (self._stable, self._panic))
        desired = min(max(stable, least), most)
        if panic / pods >= PANIC_THRESHOLD:
            self._panic_since = now_seconds
        elif self._panic_since is not None and self._panic_since + STABLE_SECONDS < now_seconds:
            self._panic_since, self._most_in_panic = None, 0
        if self._panic_since is not None:
            desired = max(desired, min(max(panic, least), most))
            self._most_in_panic = desired = max(desired, self._most_in_panic)
        self._delayed.add(now_seconds, desired)
        return max(self._fewest, int(self._delayed.largest))


class Kpa:
    """Container concurrency: 2 for prefill (one computes, one is ready behind it), B* for decode."""

    name = "kpa"
    tick_seconds = TICK_SECONDS

    def __init__(
        self, profile: Profile, *, prefill_concurrency: float = 2.0, decode_share: float = 1.0,
        scale_down_delay_seconds: float = 300.0, scale: float = 1.0,
    ) -> None:  # fmt: skip
        """`scale` multiplies both targets: the dial for tuning."""
        self._prefill = Autoscaler(
            scale * UTILISATION * prefill_concurrency, scale_down_delay_seconds=scale_down_delay_seconds
        )
        self._decode = Autoscaler(
            scale * UTILISATION * decode_share * profile.batch,
            scale_down_delay_seconds=scale_down_delay_seconds,
        )

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        now = view.now_seconds
        # What no worker has taken yet waits in Knative's activator, which reports it too.
        prefill = concurrency(view.prefill) + view.router_waiting
        return Targets(
            self._prefill.replicas(now, view.prefill.ready, prefill),
            self._decode.replicas(now, view.decode.ready, concurrency(view.decode)),
        )
