"""A value that is a sum of parts, y = c0 + c1 x1 + c2 x2, through recent samples as far as they tell it.

Both models are such sums: seconds of a prompt over its work; seconds per token over the batch and the tokens that it
holds. What the samples leave open (they may all lie at one x, or move together) is taken from `shape`, coefficients
whose proportions are believed and whose height is not. A sample far off counts less, so that a worker that stalls for a
kernel compile or a page of swap moves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KEPT = 128
KEEP_SECONDS = 600.0
_HALF_LIFE_SECONDS = 120.0
# Relative residuals below this are noise whatever the others are like.
_LEAST_SPREAD = 0.02
_PASSES = 3
# Of one tick's samples, those that differ by more than this factor from their median are left out.
_OUTLIER = 2.0
# How strongly the shape holds against the samples, as a part of their weight: an x that varies by a tenth is then half
# believed. It is there because the errors of samples are no independent noise.
_SHAPE_SHARE = 0.01
# Relative noise of a sample: the one for which the shape's weights are meant, and what is believed of it beforehand, as
# if so many samples had shown it.
_USUAL_NOISE, _PRIOR_NOISE, _PRIOR_COUNT = 0.04, 0.15, 3.0


@dataclass(frozen=True)
class Sample:
    """One worker's interval: `x` one or two quantities, `y` what they cost."""

    x: tuple[float, ...]
    y: float
    weight: float


@dataclass(frozen=True)
class Samples:
    """The newest samples, oldest first: (n, 3 + k) of seconds, weight, y, x1..xk. Never written to."""

    rows: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weight(self) -> float:
        return float(self.rows[:, 1].sum()) if len(self.rows) else 0.0

    @property
    def first_x(self) -> Array:
        """(n,) of x1."""
        return np.asarray(self.rows[:, 3])

    def plus(
        self, at_seconds: float, samples: Sequence[Sample], line: Sequence[float], most_weight: float
    ) -> "Samples":
        """With one tick's samples, one per worker, put together into two at most.

        A fleet's size must not decide how long its past is remembered. The two are its emptier and its fuller half,
        which shows the slope. Whoever is off from `line` by much more than the others is left out.
        """
        merged = _merged(samples, line)
        if not merged:
            return self
        new = np.array([(at_seconds, min(s.weight, most_weight), s.y, *s.x) for s in merged])
        if not len(self.rows):
            return Samples(new)
        first = int(np.searchsorted(self.rows[:, 0], at_seconds - KEEP_SECONDS))
        return Samples(np.concatenate([self.rows[first:], new])[-KEPT:])


def _merged(samples: Sequence[Sample], line: Sequence[float]) -> list[Sample]:
    if len(samples) < 2:
        return list(samples)
    ordered = sorted(samples, key=lambda s: s.x)
    heights = [
        s.y / max(line[0] + sum(c * x for c, x in zip(line[1:], s.x, strict=True)), 1e-12) for s in ordered
    ]
    middle = sorted(heights)[len(heights) // 2]
    sound = [s for s, h in zip(ordered, heights, strict=True) if middle / _OUTLIER <= h <= middle * _OUTLIER]
    halves = (sound[: len(sound) // 2], sound[len(sound) // 2 :]) if len(sound) >= 4 else (sound,)
    return [_mean(half) for half in halves if half]


def _mean(samples: Sequence[Sample]) -> Sample:
    total = sum(s.weight for s in samples)
    x = tuple(sum(s.x[i] * s.weight for s in samples) / total for i in range(len(samples[0].x)))
    return Sample(x, sum(s.y * s.weight for s in samples) / total, total)


def fit(
    samples: Samples, now_seconds: float, shape: Sequence[float], *, shape_weight: float
) -> tuple[float, ...]:
    """Coefficients c0, c1, ..., none negative. `shape_weight` is in the samples' own unit of weight.

    Weighted least squares of relative residuals, drawn towards `shape` scaled to the samples (ridge). It starts from
    the shape at the samples' median height and lowers the weight of what lies off (Huber), three times over.
    """
    rows = samples.rows
    if not len(rows):
        return tuple(shape)
    y = rows[:, 2]
    parts = np.concatenate([np.ones((len(rows), 1)), rows[:, 3:]], axis=1)
    aged = rows[:, 1] * 0.5 ** (np.maximum(0.0, now_seconds - rows[:, 0]) / _HALF_LIFE_SECONDS)
    known = np.array(shape)
    if not aged.sum() > 0:
        return tuple(shape)
    found = known * _median(y / np.maximum(parts @ known, 1e-12), aged)
    count = float(aged.sum() / aged.max())
    for _ in range(_PASSES):
        off = np.abs(y / np.maximum(parts @ found, 1e-12) - 1.0)
        usual = max(_median(off, aged), _LEAST_SPREAD)
        weights = aged * np.minimum(1.0, 2.0 * usual / np.maximum(off, 1e-12))
        # The noisier the samples, the firmer the shape, as in Bayes' rule. Few samples do not show their noise.
        noise = (_PRIOR_COUNT * _PRIOR_NOISE**2 + count * usual**2) / (_PRIOR_COUNT + count)
        firmness = max(1.0, noise / _USUAL_NOISE**2)
        found = _least_squares(parts, y, weights, known, firmness * shape_weight, firmness * _SHAPE_SHARE)
    return tuple(float(c) for c in found)


def _median(values: Array, weights: Array) -> float:
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(running, running[-1] / 2)]])


def _least_squares(
    parts: Array, y: Array, weights: Array, shape: Array, shape_weight: float, shape_share: float
) -> Array:
    total = float(weights.sum())
    mean_y, means = float(weights @ y) / total, weights @ parts / total
    at_middle = float(means @ shape)
    if not (mean_y > 0 and np.isfinite(mean_y) and np.all(means > 0) and at_middle > 0):
        return shape
    # In units of the middle, so that the ridge means the same on every machine: coefficients are shares of y there.
    relative = parts / means
    believed = shape * means / at_middle
    ridge = shape_weight + shape_share * total
    free = np.ones(len(believed), bool)
    found = np.zeros(len(believed))
    while free.any():
        inside = relative[:, free]
        square = (inside.T * weights) @ inside + ridge * np.eye(int(free.sum()))
        # What is held at zero is made up for by the others.
        prior = believed[free] / believed[free].sum() if believed[free].sum() > 0 else believed[free]
        solved = np.linalg.solve(square, (inside.T * weights) @ (y / mean_y) + ridge * prior)
        found[:] = 0.0
        found[free] = solved
        if np.all(solved >= 0):
            break
        free &= found > 0
    return found * mean_y / means
