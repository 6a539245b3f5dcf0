"""One recorded hour of requests, as it was or as k copies of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.data import FOLDER
from tandem_autoscaler.simulator.trace import Trace

# A copy's requests move by up to this much, which keeps what happens within minutes.
JITTER_SECONDS = 5.0
# ... and take the lengths of some request that came at about the same time.
NEIGHBOUR_SECONDS = 60.0
WARM_UP_SECONDS = 300.0


@dataclass(frozen=True)
class Recording:
    """`quantum_seconds`: arrivals are known only to so much, and are spread over it."""

    file: str
    source: str
    quantum_seconds: float = 0.0


def recorded(name: str, recording: Recording, random: np.random.Generator, scale: float | None) -> Trace:
    """Without a scale the recorded requests themselves (where arrivals are quantised, spread by `random`).

    With a scale k, k copies laid over each other: each request of each copy is moved by U(-5, 5) s and gets the lengths
    of one of the trace's requests within 60 s of it. The rate per minute keeps its shape, and so do the lengths
    that go with it; whatever is fixed within seconds (a burst of one client) is smeared over 10 s.
    """
    with np.load(FOLDER / f"{recording.file}.npz") as file:
        at = np.cumsum(file["gap_ms"].astype(np.float64)) / 1000.0
        prompt, output = file["prompt"].astype(np.float64), file["output"].astype(np.float64)
    duration = float(at[-1]) + recording.quantum_seconds
    at = np.sort(at + random.random(len(at)) * recording.quantum_seconds)
    note = recording.source
    if recording.quantum_seconds:
        note += f"; arrivals, known to {recording.quantum_seconds:g} s, spread evenly within that"
    if scale is not None:
        at, prompt, output = superposed(at, prompt, output, random, scale, duration)
        note += f"; {scale:g} copies, each request moved by up to {JITTER_SECONDS:g} s"
    return Trace(name, at, prompt, output, duration, WARM_UP_SECONDS, note)


def superposed(
    at: NDArray[np.float64],
    prompt: NDArray[np.float64],
    output: NDArray[np.float64],
    random: np.random.Generator,
    scale: float,
    duration_seconds: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """`scale` copies of a trace; of the last one only a share where `scale` is no whole number."""
    whole, share = divmod(scale, 1.0)
    original = np.tile(np.arange(len(at)), int(whole) + 1)
    keep = np.ones(len(original), dtype=bool)
    keep[int(whole) * len(at) :] = random.random(len(at)) < share
    original = original[keep]
    jitter = random.uniform(-JITTER_SECONDS, JITTER_SECONDS, len(original))
    # Reflected at the ends, so that the first and last seconds keep their rate.
    moved = np.abs(at[original] + jitter)
    moved = np.where(moved > duration_seconds, 2.0 * duration_seconds - moved, moved)
    first = np.searchsorted(at, at[original] - NEIGHBOUR_SECONDS, side="left")
    last = np.searchsorted(at, at[original] + NEIGHBOUR_SECONDS, side="right")
    like = first + (random.random(len(original)) * (last - first)).astype(np.int64)
    order = np.argsort(moved, kind="stable")
    return moved[order], prompt[like][order], output[like][order]
