"""Requests as they came, or as a generator says they might."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Trace:
    """`arrival` seconds, ascending from 0 or later; `prompt` and `output` whole tokens, at least 1; all of one
    length.

    Requests before `warm_up_seconds` run but do not count. The trace ends at `duration_seconds`; GPU-hours count
    from the warm-up to there.
    """

    name: str
    arrival: NDArray[np.float64]
    prompt: NDArray[np.float64]
    output: NDArray[np.float64]
    duration_seconds: float
    warm_up_seconds: float = 0.0
    note: str = ""  # what a reader must know of it, e.g. that it is a reconstruction

    def __post_init__(self) -> None:
        """Raises ValueError when the fleet could not make sense of it."""
        if not len(self.arrival) == len(self.prompt) == len(self.output):
            raise ValueError(f"{self.name}: arrival, prompt and output differ in length")
        for name, values in (("arrival", self.arrival), ("prompt", self.prompt), ("output", self.output)):
            if not np.isfinite(values).all():
                raise ValueError(f"{self.name}: {name} holds a value that is no finite number")
        if len(self) and (self.arrival[0] < 0 or (np.diff(self.arrival) < 0).any()):
            raise ValueError(f"{self.name}: arrivals must ascend from 0 or later")
        if (self.prompt < 1).any() or (self.output < 1).any():
            raise ValueError(f"{self.name}: prompt and output must hold at least 1 token")
        if (self.prompt % 1).any() or (self.output % 1).any():
            raise ValueError(f"{self.name}: tokens must be whole numbers")

    def __len__(self) -> int:
        return len(self.arrival)
