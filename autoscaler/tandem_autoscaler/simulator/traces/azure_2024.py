"""One day of Azure's conversation service in May 2024, reconstructed.

The public figures were digitised: the rate per 5 minutes and the two length distributions. So arrivals are Poisson
within each window (real ones are burstier), lengths are drawn from the week's distributions, prompt and output
independently, and outputs above 683 tokens (the last 0.6 %) are cut there.
"""

import numpy as np
from numpy.typing import NDArray

from tandem_autoscaler.simulator.data import FOLDER
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.arrivals import poisson

WINDOW_SECONDS = 300
WINDOWS_PER_DAY = 288
DAY = 2  # of seven; a weekday, whose mean rate (55/s) and peak (79/s) are the week's largest
NOTE = (
    "reconstructed from digitised figures (error about 1 %) of the Azure LLM inference trace 2024 (CC-BY-4.0;"
    " DynamoLLM, HPCA'25): Poisson arrivals within 5 minutes, lengths drawn from the week's distributions"
)


def azure_2024(name: str, random: np.random.Generator, scale: float) -> Trace:
    with np.load(FOLDER / "azure-conv-2024.npz") as file:
        day = file["rate_per_second"].reshape(-1, WINDOWS_PER_DAY)[DAY].astype(np.float64)
        cdf = {key: file[key].astype(np.float64) for key in file.files}
    duration = float(WINDOW_SECONDS * WINDOWS_PER_DAY)
    at = poisson(
        random, duration, lambda t: scale * day[(t // WINDOW_SECONDS).astype(np.int64)], float(WINDOW_SECONDS)
    )
    prompt, output = (
        _drawn(random, len(at), cdf[f"{kind}_share"], cdf[f"{kind}_tokens"]) for kind in ("prompt", "output")
    )
    return Trace(name, at, prompt, output, duration, 600.0, NOTE)


def _drawn(
    random: np.random.Generator, count: int, share: NDArray[np.float64], tokens: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Inverse sampling."""
    return np.maximum(1.0, np.rint(np.interp(random.random(count), share, tokens)))
