"""What whoever writes the thresholds of a baseline knows beforehand: the machine, the targets, the usual request."""

import math
from dataclasses import dataclass

from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.trace import Trace

# ALGORITHM 4.4: margins on the TPOT target and on the KV cache.
SAFETY = 0.95
KV_FILL = 0.92


@dataclass(frozen=True)
class Profile:
    """One service as its operator measured it. The means are the whole trace's, which is generous to the baselines.

    `hardware` is what the operator believes; where a model error is simulated the fleet's own differs.
    """

    hardware: Hardware
    ttft_seconds: float
    tpot_seconds: float
    prompt_tokens: float
    output_tokens: float
    arrivals_per_second: float
    cold_start_seconds: float = 40.0
    router: str = "least_work"

    @classmethod
    def of(
        cls, trace: Trace, hardware: Hardware, *, ttft_seconds: float, tpot_seconds: float,
        cold_start_seconds: float = 40.0, router: str = "least_work",
    ) -> "Profile":  # fmt: skip
        return cls(
            hardware,
            ttft_seconds,
            tpot_seconds,
            float(trace.prompt.mean()),
            float(trace.output.mean()),
            len(trace) / trace.duration_seconds,
            cold_start_seconds,
            router,
        )

    @property
    def batch(self) -> int:
        """B* of the usual request."""
        return largest_batch(self.hardware, self.tpot_seconds, self.prompt_tokens, self.output_tokens)


def largest_batch(hardware: Hardware, tpot_seconds: float, prompt: float, output: float) -> int:
    """B* of ALGORITHM 4.4, at least 1: within the TPOT target, the KV cache and the engine's own limit.

    Contexts vary by about their mean (cv 1), so the batch keeps 2 c sqrt(B) tokens free.
    """
    context = prompt + output / 2.0
    d0, d1, d2 = hardware.decode
    by_time = (SAFETY * tpot_seconds - d0) / (d1 + d2 * context)
    # B c + 2 c sqrt(B) = fill K, solved for sqrt(B).
    by_memory = (math.sqrt(1.0 + KV_FILL * hardware.kv_tokens / context) - 1.0) ** 2
    return max(1, math.floor(min(by_time, by_memory, hardware.max_sequences) + 1e-9))


def batch_seconds(hardware: Hardware, batch: float, prompt: float, output: float) -> float:
    """tau(B, B c): one iteration of a batch of usual contexts."""
    return hardware.iteration_seconds(batch, batch * (prompt + output / 2.0))
