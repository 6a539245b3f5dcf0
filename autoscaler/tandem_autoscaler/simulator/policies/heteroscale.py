"""HeteroScale: decode tokens per second as the one metric, prefill in a fixed ratio (arXiv 2508.19559).

D = ceil(N tps / target) outside 10 % of the target, P = ratio x D; a fifth more when latency is broken. The target is
a share of what a decode worker makes at B*, the ratio that of the two roles' needs for the usual load. The form
follows a third party's re-implementation, the paper gives none.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.need import decode_need, prefill_need
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile, batch_seconds
from tandem_autoscaler.simulator.policies.window import Window

WINDOW_SECONDS = 60.0
TOLERANCE = 0.1
EMERGENCY = 1.2


class HeteroScale:
    name = "heteroscale"
    tick_seconds = 15.0

    def __init__(self, profile: Profile, *, utilisation: float = 0.8, ratio: float | None = None) -> None:
        """`utilisation`: the target as a share of a worker's tokens per second at B*; the dial for tuning."""
        self._profile = profile
        prompt, output = profile.prompt_tokens, profile.output_tokens
        full = profile.batch / batch_seconds(profile.hardware, profile.batch, prompt, output)
        self.target = utilisation * full
        self.ratio = usual_ratio(profile) if ratio is None else ratio
        self._made = Window(WINDOW_SECONDS)
        self._emergency_until = 0.0

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        now, role = view.now_seconds, view.decode
        self._made.add(now, view.output_tokens_made)
        decode = self.decode_replicas(role.target, role.ready, self._made.rate)
        broken = _broken(view.new_ttft_seconds, self._profile.ttft_seconds) or _broken(
            view.new_tpot_seconds, self._profile.tpot_seconds
        )
        if broken and now >= self._emergency_until:
            # Once per window: the metric needs that long to answer.
            self._emergency_until = now + WINDOW_SECONDS
            decode = max(decode, math.ceil(EMERGENCY * role.target))
        elif now < self._emergency_until:
            decode = max(decode, role.target)
        return Targets(max(1, math.ceil(self.ratio * decode - 1e-9)), max(1, decode))

    def decode_replicas(self, current: int, ready: int, tokens_per_second: float) -> int:
        if ready == 0 or abs(tokens_per_second / (ready * self.target) - 1.0) <= TOLERANCE:
            return current
        return math.ceil(tokens_per_second / self.target - 1e-9)


def usual_ratio(profile: Profile) -> float:
    """Prefill per decode workers at ten times the usual load, where rounding up no longer shows."""
    arrivals = 10.0 * profile.arrivals_per_second
    prefill = prefill_need(profile, arrivals, np.array([profile.prompt_tokens]))
    return prefill / decode_need(profile, arrivals, profile.prompt_tokens, profile.output_tokens)


def _broken(seconds: NDArray[np.float64], target: float) -> bool:
    return len(seconds) > 0 and float((seconds > target).mean()) > 0.05
