"""The strongest simple rule: size by the model for h times the arrivals, shrink to the most of the last 300 s.

ALGORITHM section 5 ("model + constant headroom h"). It has our formulae with the hardware's true times, so what it
lacks against ours is the forecast at the cold-start horizon and the calibration, nothing else. With `hold_seconds` 30
and a looser `allowance` on a fleet that demotes late prompts it has our levers too: the ablation.
"""

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.need import decode_need, prefill_need
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.traffic import Traffic
from tandem_autoscaler.simulator.policies.window import Window


class ConstantHeadroom:
    name = "constant_headroom"
    tick_seconds = 15.0

    def __init__(
        self,
        profile: Profile,
        *,
        headroom: float = 1.25,
        hold_seconds: float = 300.0,
        allowance: float = 0.05,
    ) -> None:
        """`allowance`: share of prompts that may be late, of which 4.3 uses 0.8."""
        self._profile, self._headroom, self._allowance = profile, headroom, allowance
        self._traffic = Traffic(profile.output_tokens)
        self._prefill, self._decode = Window(hold_seconds), Window(hold_seconds)

    def step(self, fleet: Fleet) -> Targets:
        view, traffic = fleet.view(), self._traffic
        traffic.update(view)
        now, arrivals = view.now_seconds, self._headroom * traffic.arrivals_per_second
        prompt = float(traffic.prompts.mean()) if len(traffic.prompts) else self._profile.prompt_tokens
        prefill = prefill_need(
            self._profile,
            arrivals,
            traffic.prompts,
            allowance=self._allowance,
            arrival_scv=traffic.arrival_scv,
        )
        self._prefill.add(now, prefill)
        self._decode.add(now, decode_need(self._profile, arrivals, prompt, traffic.output_tokens))
        return Targets(int(self._prefill.largest), int(self._decode.largest))
