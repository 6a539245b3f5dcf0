"""24 h of DeepSeek-R1 requests at Alibaba, made client by client as ServeGen's data describe them.

Each client and 10-minute window has its number of requests, the family and shape of the gaps between them, and, per
6 hours, the distributions of prompt and output lengths. The mix of clients moves the lengths: per 10 minutes the
output tokens per prompt token range from 0.4 to 5.
"""

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.data import FOLDER
from tandem_autoscaler.simulator.trace import Trace

WINDOW_SECONDS = 600.0
WINDOWS_PER_PERIOD = 36
GAMMA, WEIBULL = 1, 2
NOTE = (
    "made from the rates, gap distributions and length histograms per client that ServeGen publishes (Apache-2.0;"
    " NSDI'26); lengths are the means of 48 strata of each histogram, prompt and output independent of each other"
)


def servegen(name: str, random: np.random.Generator, scale: float) -> Trace:
    with np.load(FOLDER / "servegen-deepseek-r1.npz") as file:
        data = {key: file[key] for key in file.files}
    clients, windows = data["count"].shape
    expected = data["count"] * scale
    count = np.floor(expected + random.random(expected.shape)).astype(np.int64)
    at = np.concatenate(
        [
            window * WINDOW_SECONDS
            + _within(
                random, count[client, window], data["family"][client, window], data["shape"][client, window]
            )
            for client in range(clients)
            for window in range(windows)
        ]
    )
    client = np.repeat(np.arange(clients), count.sum(axis=1))
    period = np.repeat(np.tile(np.arange(windows) // WINDOWS_PER_PERIOD, clients), count.ravel())
    prompt, output = (
        np.maximum(
            1.0, data[kind][client, period, _strata(random, len(at), data["stratum_end"])].astype(np.float64)
        )
        for kind in ("prompt", "output")
    )
    order = np.argsort(at, kind="stable")
    return Trace(name, at[order], prompt[order], output[order], windows * WINDOW_SECONDS, 600.0, NOTE)


def _within(random: np.random.Generator, count: int, family: int, shape: float) -> NDArray[np.float64]:
    """Arrival times of one client in one window: gaps of the family and shape, scaled so that `count` fall in it."""
    if family == GAMMA:
        gaps = random.gamma(shape, size=count + 1)
    elif family == WEIBULL:
        gaps = random.weibull(shape, size=count + 1)
    else:  # too few requests for the publishers to fit one
        gaps = random.exponential(size=count + 1)
    reach = np.cumsum(gaps)
    # Bursty gaps may all but vanish, and a share of one would belong to the next window.
    share = np.minimum(reach[:-1] / max(reach[-1], 1e-300), 1.0 - 1e-9)
    return share * WINDOW_SECONDS


def _strata(random: np.random.Generator, count: int, stratum_end: NDArray[np.float32]) -> NDArray[np.int64]:
    drawn = np.searchsorted(stratum_end.astype(np.float64), random.random(count), side="right")
    return np.minimum(drawn, len(stratum_end) - 1)
