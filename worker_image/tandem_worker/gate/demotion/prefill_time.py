"""How long a prompt takes: a line over its tokens, learnt from the prompts before it.

The part that grows with the tokens is work: it keeps the engine from the next prompt. The constant part (HTTP,
tokeniser, the overhead of a step that several prompts share) is latency: a prompt has it once, however many are before.
Taken for work it would make the gate hold back what the engine can batch (seen on vLLM on CPUs: median TTFT x 3).
"""

from collections import deque
from itertools import combinations
from statistics import fmean, median

SAMPLES = 48
# One slow start (a kernel compiled, a cache filled) among so few cannot bend the line.
FEWEST_SAMPLES = 8
# The line is drawn anew with each sample while they are few, then with every fourth.
DRAWN_EACH_BELOW = 16


class PrefillTime:
    """seconds = a + b x tokens, by the median of slopes (Theil and Sen), so that outliers do not count.

    Each pair of samples weighs as much as their lengths differ: neighbours tell nothing of a slope.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)
        self._learnt = 0
        self.latency_seconds = 0.0
        self._token_seconds = 0.0
        self.mean_tokens = 0.0

    @property
    def known(self) -> bool:
        return self._learnt >= FEWEST_SAMPLES

    def work_seconds(self, tokens: float) -> float:
        """How long a prompt will keep the engine from others; only when `known`."""
        return self._token_seconds * tokens

    def learn(self, tokens: float, seconds: float) -> None:
        """A prompt of `tokens` took `seconds`, alone or as the mean of a few."""
        self._samples.append((tokens, seconds))
        self._learnt += 1
        if self._learnt <= DRAWN_EACH_BELOW or self._learnt % 4 == 0:
            self._draw()

    def _draw(self) -> None:
        slopes = []
        for (tokens, seconds), (other_tokens, other_seconds) in combinations(self._samples, 2):
            apart = other_tokens - tokens
            if apart:
                slopes.append(((other_seconds - seconds) / apart, abs(apart)))
        self._token_seconds = max(0.0, _weighted_median(slopes)) if slopes else 0.0
        rest = median(seconds - self._token_seconds * tokens for tokens, seconds in self._samples)
        self.latency_seconds = max(0.0, rest)
        self.mean_tokens = fmean(tokens for tokens, _ in self._samples)


def _weighted_median(values: list[tuple[float, float]]) -> float:
    values.sort()
    half = sum(weight for _, weight in values) / 2
    for value, weight in values:
        half -= weight
        if half <= 0:
            return value
    return values[-1][0]
