"""TokenScale: token velocities (arXiv 2512.03416), without its convertible decoders.

P = ceil(prompt tokens per second / min(V_P, V_N)), D = ceil(lambda (I + O) / V_D) over 15 s, where V_P is what a
prefill worker computes, V_N what the network carries and V_D the tokens that a decode worker releases per second. This
is an interpretation of the published definitions; I and O are the recent requests' means.
"""

import math

import numpy as np

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile, batch_seconds, largest_batch
from tandem_autoscaler.simulator.policies.traffic import Traffic, arrivals_per_second

WINDOW_SECONDS = 15.0


class TokenScale:
    name = "tokenscale"
    tick_seconds = 15.0

    def __init__(self, profile: Profile, *, utilisation: float = 1.0) -> None:
        """`utilisation`: the share of a velocity that is planned for; the dial for tuning."""
        self._profile, self._utilisation = profile, utilisation
        self._traffic = Traffic(profile.output_tokens)

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        self._traffic.update(view)
        since = int(np.searchsorted(view.arrival, view.now_seconds - WINDOW_SECONDS))
        prompts, arrivals = view.prompt[since:], arrivals_per_second(view, WINDOW_SECONDS)
        if len(prompts) == 0:
            return Targets(1, 1)
        prompt, output = float(prompts.mean()), self._traffic.output_tokens
        prefill, decode = self.velocities(prompt, output)
        return Targets(
            max(1, math.ceil(arrivals * prompt / (self._utilisation * prefill) - 1e-9)),
            max(1, math.ceil(arrivals * (prompt + output) / (self._utilisation * decode) - 1e-9)),
        )

    def velocities(self, prompt: float, output: float) -> tuple[float, float]:
        """(min(V_P, V_N), V_D) in tokens per second and worker."""
        hardware = self._profile.hardware
        per_token = hardware.transfer_seconds_per_token
        network = 1.0 / per_token if per_token > 0 else math.inf
        batch = largest_batch(hardware, self._profile.tpot_seconds, prompt, output)
        released = batch / (output * batch_seconds(hardware, batch, prompt, output)) * (prompt + output)
        return min(prompt / hardware.prefill_seconds(prompt), network), released
