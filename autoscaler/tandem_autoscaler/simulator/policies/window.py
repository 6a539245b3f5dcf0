"""Sliding windows over samples taken at ticks: the largest, the mean, the growth of a counter."""

from collections import deque


class Window:
    """Samples of the last `seconds`. A sample exactly that old still belongs to it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, now_seconds: float, value: float) -> None:
        self._samples.append((now_seconds, value))
        while self._samples[0][0] < now_seconds - self.seconds - 1e-6:
            self._samples.popleft()

    @property
    def largest(self) -> float:
        return max(value for _, value in self._samples)

    @property
    def mean(self) -> float:
        return sum(value for _, value in self._samples) / len(self._samples)

    @property
    def rate(self) -> float:
        """Growth per second from the oldest sample to the newest; 0 with one sample."""
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - start) if end > start else 0.0

    @property
    def growth(self) -> float:
        return self._samples[-1][1] - self._samples[0][1]
