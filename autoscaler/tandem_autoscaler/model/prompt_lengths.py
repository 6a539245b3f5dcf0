"""Prompt lengths from an engine's buckets: a few representative lengths with their shares."""

import math

from tandem_autoscaler.signals.histogram import Histogram

Lengths = tuple[tuple[float, float], ...]
"""(tokens, share), shares adding up to 1, tokens ascending."""


def lengths(histogram: Histogram | None) -> Lengths | None:
    """One length per bucket, all at the same relative place within their buckets, so that the mean is exact.

    vLLM's buckets are 1-2-5 per decade: middles alone would misjudge the mean by up to 40 %. None when nothing
    was counted.
    """
    if histogram is None or histogram.count <= 0 or histogram.mean is None:
        return None
    mean, count, edges = max(histogram.mean, 1.0), histogram.count, histogram.edges
    filled = [
        (low, high, inside / count)
        for low, high, inside in zip((0.0, *edges), edges, histogram.counts, strict=False)
        if inside > 0
    ]
    if len(filled) == 1:
        return ((mean, 1.0),)
    # Beyond the last edge nothing is known but that it is longer.
    filled = [
        (low, max(high, mean) if high < math.inf else max(2 * low, 2 * mean), share)
        for low, high, share in filled
    ]
    floor = sum([low * share for low, _, share in filled])
    width = sum([(high - low) * share for low, high, share in filled])
    place = min(1.0, max(0.0, (mean - floor) / width)) if width > 0 else 0.5
    return tuple([(max(1.0, low + place * (high - low)), share) for low, high, share in filled])


def shortened(found: Lengths, factor: float) -> Lengths:
    """All lengths times `factor`: what is left to compute after the prefix cache's hits."""
    return tuple([(max(1.0, tokens * factor), share) for tokens, share in found])


def mean_tokens(found: Lengths) -> float:
    return sum([tokens * share for tokens, share in found])
