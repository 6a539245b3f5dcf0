"""Prompt and output lengths of made-up traces."""

import math

import numpy as np
from numpy.typing import NDArray


def log_normal(
    random: np.random.Generator, count: int, *, mean: float, cv: float, most: float
) -> NDArray[np.float64]:
    """Whole tokens, 1 to `most`; mean and coefficient of variation are those before the cut at `most`.

    Log-normal because the recorded lengths of all traces here are nearer to it than to an exponential.
    """
    variance = math.log1p(cv * cv)
    drawn = random.lognormal(math.log(mean) - variance / 2, math.sqrt(variance), count)
    return np.clip(np.rint(drawn), 1.0, most)
