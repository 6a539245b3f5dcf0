"""A line y = base + slope x through recent samples, as far as they tell it, and otherwise through what was known.

Both models are such lines: seconds of a prompt over its tokens, seconds per token over the batch. What the samples
leave open (they may all lie at one x) is taken from `shape`, a line whose proportions are believed and whose height is
not. A sample far off counts less, so that a worker that stalls for a kernel compile or a page of swap moves nothing.
"""

from dataclasses import dataclass

KEPT = 96
KEEP_SECONDS = 600.0
_HALF_LIFE_SECONDS = 120.0
# Relative residuals below this are noise whatever the others are like.
_LEAST_SPREAD = 0.02
_PASSES = 4


@dataclass(frozen=True)
class Line:
    base: float
    slope: float

    def at(self, x: float) -> float:
        return self.base + self.slope * x


@dataclass(frozen=True)
class Sample:
    at_seconds: float
    x: float
    y: float
    weight: float


def with_sample(samples: tuple[Sample, ...], sample: Sample) -> tuple[Sample, ...]:
    """The newest samples, oldest first."""
    kept = tuple(s for s in samples if sample.at_seconds - s.at_seconds <= KEEP_SECONDS)
    return (*kept[-(KEPT - 1) :], sample)


def fit(samples: tuple[Sample, ...], now_seconds: float, shape: Line, *, shape_weight: float) -> Line:
    """The line with base, slope >= 0. `shape_weight` is in the samples' own unit of weight.

    Weighted least squares of relative residuals, drawn towards `shape` scaled to the samples (ridge). It starts from
    the shape at the samples' median height and lowers the weight of what lies off (Huber), four times over.
    """
    aged = [s.weight * 0.5 ** (max(0.0, now_seconds - s.at_seconds) / _HALF_LIFE_SECONDS) for s in samples]
    if sum(aged) <= 0:
        return shape
    height = _median([s.y / max(shape.at(s.x), 1e-12) for s in samples], aged)
    line = Line(shape.base * height, shape.slope * height)
    for _ in range(_PASSES):
        off = [abs(s.y / max(line.at(s.x), 1e-12) - 1.0) for s in samples]
        usual = max(_median(off, aged), _LEAST_SPREAD)
        weights = [w * min(1.0, 2.0 * usual / max(o, 1e-12)) for w, o in zip(aged, off, strict=True)]
        line = _least_squares(samples, weights, shape, shape_weight)
    return line


def _median(values: list[float], weights: list[float]) -> float:
    half, running = sum(weights) / 2, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        running += weight
        if running >= half:
            return value
    return values[-1]


def _least_squares(samples: tuple[Sample, ...], weights: list[float], shape: Line, ridge: float) -> Line:
    total = sum(weights)
    mean_y = sum(w * s.y for w, s in zip(weights, samples, strict=True)) / total
    mean_x = sum(w * s.x for w, s in zip(weights, samples, strict=True)) / total
    if mean_y <= 0 or mean_x <= 0:
        return shape
    # The shape scaled to pass through the samples' middle, then a ridge regression of what it leaves over, in units
    # of the middle, so that the ridge means the same on every machine.
    at_middle = shape.at(mean_x)
    scale = mean_y / at_middle if at_middle > 0 else 1.0
    base, slope = shape.base * scale, shape.slope * scale
    rest = [(s.y - base - slope * s.x) / mean_y for s in samples]
    s00 = total + ridge
    s11 = sum(w * (s.x / mean_x) ** 2 for w, s in zip(weights, samples, strict=True)) + ridge
    r0 = sum(w * r for w, r in zip(weights, rest, strict=True))
    r1 = sum(w * r * s.x / mean_x for w, r, s in zip(weights, rest, samples, strict=True))
    determinant = s00 * s11 - total * total
    base += mean_y * (r0 * s11 - r1 * total) / determinant
    slope += mean_y / mean_x * (s00 * r1 - total * r0) / determinant
    if slope < 0:
        return Line(mean_y, 0.0)
    if base < 0:
        return Line(0.0, mean_y / mean_x)
    return Line(base, slope)
