"""llm-d's workload variant autoscaler, saturation analyzers, one variant per role.

Source: llm-d/llm-d-workload-variant-autoscaler internal/engines. Version 1 by percentages and version 2 by tokens
(saturation_v2/analyzer.go, pipeline/cost_aware_optimizer.go), with their defaults. The engine publishes the number of
replicas and an HPA follows it (target 1 per replica, so its tolerance swallows changes below 10 %).
"""

import math
from collections import deque

import numpy as np

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.hpa import Controller
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile
from tandem_autoscaler.simulator.view import RoleView

TICK_SECONDS = 30.0
_HISTORY = 10


def spare_replicas(
    role: RoleView, *, kv_threshold: float = 0.8, queue_threshold: float = 5.0, kv_spare: float = 0.1,
    queue_spare: float = 3.0,
) -> int:  # fmt: skip
    """Version 1's wish.

    A replica is saturated at its KV or its queue threshold. One more when the others have, on average, less than
    `kv_spare` or `queue_spare` left, or there are no others, and none is pending; one fewer when N - 1 would keep both.
    """
    free = (role.kv_usage < kv_threshold) & (role.waiting < queue_threshold)
    count = int(free.sum())
    if role.ready == 0:
        return role.target
    if count == 0:
        return role.target + (0 if role.starting else 1)
    kv, queue = float(role.kv_usage[free].mean()), float(role.waiting[free].mean())
    if kv_threshold - kv < kv_spare or queue_threshold - queue < queue_spare:
        return role.target + (0 if role.starting else 1)
    if count < 2:
        return role.target
    more = count / (count - 1)
    if kv_threshold - kv * more >= kv_spare and queue_threshold - queue * more >= queue_spare:
        return role.target - 1
    return role.target


class TokenAnalyzer:
    """Version 2: demand and capacity in KV tokens."""

    def __init__(
        self, kv_tokens: int, *, max_sequences: int, batched_tokens: int = 8192, kv_threshold: float = 0.8,
        queue_threshold: float = 5.0, scale_up: float = 0.85, scale_down: float = 0.7,
    ) -> None:  # fmt: skip
        self._kv_tokens, self._max_sequences, self._batched_tokens = kv_tokens, max_sequences, batched_tokens
        self._kv_threshold, self._queue_threshold = kv_threshold, queue_threshold
        self._scale_up, self._scale_down = scale_up, scale_down
        self._observed: deque[float] = deque(maxlen=_HISTORY)

    def wish(self, role: RoleView, queued_upstream: int, prompt: float, output: float) -> int:
        if role.ready == 0:
            return role.target
        in_use = role.kv_usage * self._kv_tokens
        demand = float((in_use + role.waiting * prompt).sum()) + queued_upstream * prompt
        capacity = float(
            np.median(
                [
                    self._capacity(tokens, waiting, prompt, output)
                    for tokens, waiting in zip(in_use, role.waiting, strict=True)
                ]
            )
        )
        short = demand / self._scale_up - (role.ready + role.starting) * capacity
        spare = role.ready * capacity - demand / self._scale_down
        if short > 0:
            return role.target + math.ceil(short / capacity)
        return role.target - math.floor(max(0.0, spare) / capacity)

    def _capacity(self, in_use: float, waiting: float, prompt: float, output: float) -> float:
        """min(k1, k2): memory, and computing as observed under a queue, remembered, or derived from the flags."""
        memory = self._kv_threshold * self._kv_tokens
        if waiting >= self._queue_threshold and in_use > 0:
            self._observed.append(in_use)
            return min(memory, in_use)
        if self._observed:
            return min(memory, sum(self._observed) / len(self._observed))
        steady = min(self._batched_tokens * output / (prompt + output), self._max_sequences)
        return min(memory, steady * (prompt + output / 2.0))


class WvaSaturation:
    """Version 2, the current one. In a prefill worker every request puts out one token."""

    name = "wva_saturation"
    tick_seconds = TICK_SECONDS

    def __init__(self, profile: Profile, *, scale_up: float = 0.85, scale: float = 1.0) -> None:
        """`scale` multiplies both thresholds (0.85 up, 0.7 down): the dial for tuning."""
        self._profile = profile
        hardware = profile.hardware
        self._analyzers = [
            TokenAnalyzer(
                hardware.kv_tokens,
                max_sequences=hardware.max_sequences,
                scale_up=scale * scale_up,
                scale_down=scale * scale_up * 0.7 / 0.85,
            )
            for _ in range(2)
        ]
        self._prefill, self._decode = Controller(), Controller()

    def step(self, fleet: Fleet) -> Targets:
        view, profile = fleet.view(), self._profile
        prompt, output = profile.prompt_tokens, profile.output_tokens
        prefill = self._analyzers[0].wish(view.prefill, view.router_waiting, prompt, 1.0)
        decode = self._analyzers[1].wish(view.decode, 0, prompt, output)
        now = view.now_seconds
        return Targets(
            follow(self._prefill, now, view.prefill, prefill), follow(self._decode, now, view.decode, decode)
        )


class WvaSaturationV1:
    name = "wva_saturation_v1"
    tick_seconds = TICK_SECONDS

    def __init__(
        self, profile: Profile, *, kv_threshold: float = 0.8, queue_threshold: float = 5.0, scale: float = 1.0
    ) -> None:
        """`scale` multiplies thresholds and spares alike: the dial for tuning."""
        self._kv, self._queue, self._scale = kv_threshold, queue_threshold, scale
        self._prefill, self._decode = Controller(), Controller()

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        now = view.now_seconds
        return Targets(
            follow(self._prefill, now, view.prefill, self._wish(view.prefill)),
            follow(self._decode, now, view.decode, self._wish(view.decode)),
        )

    def _wish(self, role: RoleView) -> int:
        return spare_replicas(
            role,
            kv_threshold=self._scale * self._kv,
            queue_threshold=self._scale * self._queue,
            kv_spare=self._scale * 0.1,
            queue_spare=self._scale * 3.0,
        )


def follow(controller: Controller, now_seconds: float, role: RoleView, wish: int) -> int:
    """An HPA on an external metric with AverageValue 1: pods, ready or not, are what it divides by."""
    return controller.external(now_seconds, role.target, max(1, wish))
