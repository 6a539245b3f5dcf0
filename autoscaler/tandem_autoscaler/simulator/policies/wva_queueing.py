"""llm-d's workload variant autoscaler, queueing model (its Inferno analyzer).

Source: llm-d/llm-d-workload-variant-autoscaler pkg/analyzer: a state-dependent M/M/1 queue, mu(n) = n / time of a
request in a batch of n; the largest arrival rate per replica at which the mean TTFT and the mean time per token keep
their targets; N = ceil(lambda / that). Split by role: a prefill worker takes one prompt at a time, a decode worker
serves O tokens at tau(n). Arrivals are counted at the gateway, which is generous: the original counts completions.
"""

import math

import numpy as np

from tandem_autoscaler.simulator.fleet import Fleet
from tandem_autoscaler.simulator.policies.hpa import Controller
from tandem_autoscaler.simulator.policies.policy import Targets
from tandem_autoscaler.simulator.policies.profile import Profile, batch_seconds
from tandem_autoscaler.simulator.policies.traffic import arrivals_per_second
from tandem_autoscaler.simulator.policies.wva_saturation import TICK_SECONDS, follow

# Requests that may wait, as a multiple of the batch.
QUEUE_TO_BATCH = 10


def mean_batch(arrivals: float, service_rates: np.ndarray) -> tuple[float, float]:
    """(requests in service, completions per second) of a queue where n of at most len(rates) in service finish at
    `service_rates[n - 1]` per second altogether and QUEUE_TO_BATCH times as many may wait."""
    most = len(service_rates)
    rates = np.concatenate([service_rates, np.full(QUEUE_TO_BATCH * most, service_rates[-1])])
    logs = np.concatenate([[0.0], np.cumsum(np.log(arrivals) - np.log(rates))])
    chance = np.exp(logs - logs.max())
    chance /= chance.sum()
    in_service = np.minimum(np.arange(len(chance)), most)
    return float(chance @ in_service), float(arrivals * (1.0 - chance[-1]))


def prefill_rate(profile: Profile) -> float:
    """Prompts per second and worker at which W = S / (1 - lambda S) is the TTFT target; all it can do if hopeless."""
    service = profile.hardware.prefill_seconds(profile.prompt_tokens)
    target = profile.ttft_seconds
    return (1.0 - service / target) / service if service < target else 1.0 / service


def decode_rate(profile: Profile) -> float:
    """Requests per second and worker at which the mean time per token is the TPOT target."""
    hardware, prompt, output = profile.hardware, profile.prompt_tokens, profile.output_tokens
    most = max(1, min(hardware.max_sequences, int(hardware.kv_tokens / (prompt + output / 2.0))))
    batch = np.arange(1, most + 1)
    rates = batch / np.array([output * batch_seconds(hardware, float(n), prompt, output) for n in batch])

    def per_token(arrivals: float) -> float:
        in_service, completed = mean_batch(arrivals, rates)
        return in_service / completed / output

    low, high = 1e-6, float(rates[-1])
    if per_token(high) <= profile.tpot_seconds:
        return high
    for _ in range(50):
        middle = (low + high) / 2.0
        if per_token(middle) <= profile.tpot_seconds:
            low = middle
        else:
            high = middle
    return max(low, float(rates[0]) * 0.5)


class WvaQueueing:
    name = "wva_queueing"
    tick_seconds = TICK_SECONDS

    def __init__(self, profile: Profile, *, headroom: float = 1.0) -> None:
        """`headroom` multiplies the arrivals: the dial for tuning."""
        self._prefill_rate, self._decode_rate = prefill_rate(profile), decode_rate(profile)
        self._headroom = headroom
        self._prefill, self._decode = Controller(), Controller()

    def step(self, fleet: Fleet) -> Targets:
        view = fleet.view()
        arrivals = self._headroom * arrivals_per_second(view, 60.0)
        now = view.now_seconds
        prefill, decode = (
            math.ceil(arrivals / rate - 1e-9) for rate in (self._prefill_rate, self._decode_rate)
        )
        return Targets(
            follow(self._prefill, now, view.prefill, prefill), follow(self._decode, now, view.decode, decode)
        )
