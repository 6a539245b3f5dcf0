"""KEDA: waiting requests for prefill, KV cache usage for decode, each an AverageValue of an HPA.

Source: kedacore/keda: the metric is fetched every 30 s (`pollingInterval`) and d = ceil(sum / threshold) is left to the
HPA with its defaults; `cooldownPeriod` (300 s) concerns the step from 1 to 0 only, which no fleet here takes.
Thresholds 5 waiting requests and 0.8 of the KV cache, as llm-d's and vLLM's examples have them.
"""

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.hpa import SYNC_SECONDS, Controller
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile

POLL_SECONDS = 30.0


class Keda:
    name = "keda"
    tick_seconds = SYNC_SECONDS

    def __init__(
        self, profile: Profile, *, waiting: float = 5.0, kv_usage: float = 0.8, scale: float = 1.0
    ) -> None:
        """`scale` multiplies both thresholds: the dial for tuning."""
        self._waiting, self._kv_usage = scale * waiting, scale * kv_usage
        self._prefill, self._decode = Controller(), Controller()
        self._fetched: tuple[float, float, float] | None = None  # when, waiting, KV usage

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        now = view.now_seconds
        if self._fetched is None or now >= self._fetched[0] + POLL_SECONDS:
            self._fetched = (now, float(view.prefill.waiting.sum()), float(view.decode.kv_usage.sum()))
        _, waiting, kv_usage = self._fetched
        return Targets(
            self._prefill.external(now, view.prefill.target, waiting / self._waiting),
            self._decode.external(now, view.decode.target, kv_usage / self._kv_usage),
        )
