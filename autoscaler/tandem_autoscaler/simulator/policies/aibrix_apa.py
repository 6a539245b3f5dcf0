"""AIBrix's application-specific pod autoscaler.

Source: vllm-project/aibrix pkg/controller/podautoscaler/algorithm/apa.go and context.go: with r = mean of the metric
over 180 s / target, above 1.1: min(ceil(N r), ceil(2 N)); below 0.9: max(ceil(N r), floor(N / 2)); cooldown none up,
300 s down. N counts pods that are still starting, so it overshoots while they start. Its sample's target is a KV cache
usage of 0.5, taken for decode. A prefill worker's KV usage says nothing of its load (llm-d #662), so prefill gets the
concurrency that the HPA baseline has.
"""

import math

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.policies.window import Window

WINDOW_SECONDS = 180.0


class Apa:
    """One PodAutoscaler object with `metricSource: pod` and strategy APA."""

    def __init__(
        self, target: float, *, fluctuation: float = 0.1, most_up: float = 2.0, most_down: float = 2.0,
        cooldown_seconds: float = 300.0, fewest: int = 1,
    ) -> None:  # fmt: skip
        self._target, self._fluctuation, self._fewest = target, fluctuation, fewest
        self._most_up, self._most_down = most_up, most_down
        self._uses = Window(WINDOW_SECONDS)
        self._recommended = Window(cooldown_seconds)

    def replicas(self, now_seconds: float, current: int, use_per_pod: float) -> int:
        self._uses.add(now_seconds, use_per_pod)
        wanted = self.recommend(current, self._uses.mean)
        self._recommended.add(now_seconds, wanted)
        return max(
            self._fewest, wanted if wanted >= current else min(current, int(self._recommended.largest))
        )

    def recommend(self, current: int, use_per_pod: float) -> int:
        ratio = use_per_pod / self._target
        if ratio > 1.0 + self._fluctuation:
            return min(math.ceil(current * ratio), math.ceil(self._most_up * current))
        if ratio < 1.0 - self._fluctuation:
            return max(math.ceil(current * ratio), math.floor(current / self._most_down))
        return current


class AibrixApa:
    name = "aibrix_apa"
    tick_seconds = 15.0

    def __init__(
        self, profile: Profile, *, prefill_concurrency: float = 2.0, kv_usage: float = 0.5, scale: float = 1.0
    ) -> None:
        """`scale` multiplies both targets: the dial for tuning."""
        self._prefill = Apa(scale * prefill_concurrency)
        self._decode = Apa(scale * kv_usage)

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        now, prefill, decode = view.now_seconds, view.prefill, view.decode
        return Targets(
            self._prefill.replicas(now, prefill.target, float((prefill.running + prefill.waiting).mean()))
            if prefill.ready
            else None,
            self._decode.replicas(now, decode.target, float(decode.kv_usage.mean()))
            if decode.ready
            else None,
        )
