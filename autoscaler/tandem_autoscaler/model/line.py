"""A value that is a sum of parts, y = c0 + c1 x1 + c2 x2, through recent samples as far as they tell it.

Both models are such sums: seconds of a prompt over its work; seconds per token over the batch and the tokens that it
holds. What the samples leave open (they may all lie at one x, or move together) is taken from `shape`, coefficients
whose proportions are believed and whose height is not. A sample far off counts less, so that a worker that stalls for a
kernel compile or a page of swap moves nothing.
"""

import math
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
    """The newest samples, oldest first: (4 + k, n) of seconds, weight, 1, x1..xk, y. Never written to."""

    columns: Array = field(default_factory=lambda: np.empty((4, 0)))
    weight: float = 0.0  # of all

    def __len__(self) -> int:
        return self.columns.shape[1]

    @property
    def first_x(self) -> Array:
        """(n,) of x1."""
        return np.asarray(self.columns[3])

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
        columns = np.array([(at_seconds, min(s.weight, most_weight), 1.0, *s.x, s.y) for s in merged]).T
        if len(self):
            first = int(self.columns[0].searchsorted(at_seconds - KEEP_SECONDS))
            first = max(first, len(self) + len(merged) - KEPT)
            columns = np.concatenate((self.columns[:, first:], columns), axis=1)
        return Samples(columns, float(np.add.reduce(columns[1])))


def _merged(samples: Sequence[Sample], line: Sequence[float]) -> list[Sample]:
    if len(samples) < 2:
        return list(samples)
    ordered = sorted(samples, key=lambda s: s.x)
    base, *slopes = line
    heights = [
        s.y / max(base + sum([c * x for c, x in zip(slopes, s.x, strict=True)]), 1e-12) for s in ordered
    ]
    middle = sorted(heights)[len(heights) // 2]
    sound = [s for s, h in zip(ordered, heights, strict=True) if middle / _OUTLIER <= h <= middle * _OUTLIER]
    halves = (sound[: len(sound) // 2], sound[len(sound) // 2 :]) if len(sound) >= 4 else (sound,)
    return [_mean(half) for half in halves if half]


def _mean(samples: Sequence[Sample]) -> Sample:
    total = sum([s.weight for s in samples])
    x = tuple([sum([s.x[i] * s.weight for s in samples]) / total for i in range(len(samples[0].x))])
    return Sample(x, sum([s.y * s.weight for s in samples]) / total, total)


def fit(
    samples: Samples, now_seconds: float, shape: Sequence[float], *, shape_weight: float
) -> tuple[float, ...]:
    """Coefficients c0, c1, ..., none negative and not all zero. `shape_weight` is in the samples' own unit of weight.

    Weighted least squares of relative residuals, drawn towards `shape` scaled to the samples (ridge). It starts from
    the shape at the samples' median height and lowers the weight of what lies off (Huber), three times over.
    """
    if not len(samples):
        return tuple(shape)
    at, weight, design = samples.columns[0], samples.columns[1], samples.columns[2:]
    parts, y = design[:-1], design[-1]
    aged = weight * np.exp2(np.maximum(now_seconds - at, 0.0) / -_HALF_LIFE_SECONDS)
    total = float(np.add.reduce(aged))
    if not total > 0:
        return tuple(shape)
    height = _median(y / (np.array(shape) @ parts), aged)
    found = tuple([height * c for c in shape])
    count = total / float(np.maximum.reduce(aged))
    for _ in range(_PASSES):
        off = abs(y / (np.array(found) @ parts) - 1.0)
        usual = max(_median(off, aged), _LEAST_SPREAD)
        weights = aged / np.maximum(off / (2.0 * usual), 1.0)
        # The noisier the samples, the firmer the shape, as in Bayes' rule. Few samples do not show their noise.
        noise = (_PRIOR_COUNT * _PRIOR_NOISE**2 + count * usual**2) / (_PRIOR_COUNT + count)
        firmness = max(1.0, noise / _USUAL_NOISE**2)
        products = np.dot(design * weights, design.T).tolist()
        found = _ridge(products, shape, firmness * shape_weight, firmness * _SHAPE_SHARE)
    return found


def _median(values: Array, weights: Array) -> float:
    order = values.argsort()
    running = np.add.accumulate(weights[order])
    return float(values[order[running.searchsorted(running[-1] / 2)]])


def _ridge(
    products: Sequence[Sequence[float]], shape: Sequence[float], shape_weight: float, shape_share: float
) -> tuple[float, ...]:
    """The coefficients from the weighted sums of products of (1, x1..xk, y) with each other.

    So small a system is solved faster in plain numbers than in arrays.
    """
    total = products[0][0]
    *means, mean_y = [part / total for part in products[0]]
    shares = [c * mean for c, mean in zip(shape, means, strict=True)]
    if not (0 < mean_y < math.inf and min(means) > 0 and sum(shares) > 0):
        return tuple(shape)
    # In units of the middle, so that the ridge means the same on every machine: c mean / mean_y is a share of y there.
    ridge = shape_weight + shape_share * total
    free = list(range(len(means)))
    found = [0.0] * len(means)
    while free:
        # What is held at zero is made up for by the others.
        drawn = ridge * mean_y / (sum([shares[i] for i in free]) or 1.0)
        rows = []
        for place, i in enumerate(free):
            # All of them free is the usual case.
            row = [*products[i]] if len(free) == len(means) else [products[i][j] for j in (*free, -1)]
            row[place] += ridge * means[i] * means[i]
            row[-1] += drawn * shares[i] * means[i]
            rows.append(row)
        solved = _solved(rows)
        if min(solved) >= 0:
            for i, coefficient in zip(free, solved, strict=True):
                found[i] = coefficient
            break
        free = [i for i, coefficient in zip(free, solved, strict=True) if coefficient > 0]
    return tuple(found) if any(found) else tuple(shape)


def _solved(rows: list[list[float]]) -> list[float]:
    """x of A x = b by elimination, given the rows of (A, b); it uses them up. Positive definite, A needs no pivots.

    Two and three unknowns, the usual ones, are written out: a third of the time.
    """
    size = len(rows)
    if size == 2:
        (a, b, p), (c, d, q) = rows
        y = (q - c / a * p) / (d - c / a * b)
        return [(p - b * y) / a, y]
    if size == 3:
        (a, b, c, p), (d, e, f, q), (g, h, i, r) = rows
        second, third = d / a, g / a
        e, f, q = e - second * b, f - second * c, q - second * p
        h, i, r = h - third * b, i - third * c, r - third * p
        z = (r - h / e * q) / (i - h / e * f)
        y = (q - f * z) / e
        return [(p - (b * y + c * z)) / a, y, z]
    for at in range(size):
        pivot = rows[at]
        for row in rows[at + 1 :]:
            factor = row[at] / pivot[at]
            for column in range(at + 1, size + 1):
                row[column] -= factor * pivot[column]
    found = [0.0] * size
    for at in range(size - 1, -1, -1):
        row = rows[at]
        known = sum([row[column] * found[column] for column in range(at + 1, size)])
        found[at] = (row[size] - known) / row[at]
    return found
