"""What one worker can do."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Amount = TypeVar("Amount", float, NDArray[np.float64])


@dataclass(frozen=True)
class Hardware:
    """One worker's times, in seconds and tokens.

    S(n)      = prefill[0] + prefill[1] n + prefill[2] n^2     a prompt of n tokens, alone
    tau(B, K) = decode[0] + decode[1] B + decode[2] K          one iteration, B sequences holding K tokens
    """

    name: str
    gpus: int
    prefill: tuple[float, float, float]
    decode: tuple[float, float, float]
    kv_tokens: int
    max_sequences: int = 256
    transfer_base_seconds: float = 0.01
    transfer_seconds_per_token: float = 0.0

    def prefill_seconds(self, tokens: Amount) -> Amount:
        a, b, c = self.prefill
        return a + b * tokens + c * tokens * tokens

    def iteration_seconds(self, batch: Amount, kv_tokens: Amount) -> Amount:
        d0, d1, d2 = self.decode
        return d0 + d1 * batch + d2 * kv_tokens

    def transfer_seconds(self, tokens: Amount) -> Amount:
        return self.transfer_base_seconds + self.transfer_seconds_per_token * tokens
