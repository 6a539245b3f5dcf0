"""How long a worker computes one prompt, alone: S(n) = a + b x(n), x(n) = n + k n^2 for n tokens that it computes.

k n is what attention adds to a token's cost. It is a property of the model's shape more than of the machine (4.2:
d_model n_layer / P, times how much worse attention kernels do), so it is given and only a and b are learnt.

The hardware may be unknown (a CPU, a new GPU), so the line may lie orders of magnitude from the prior's, and is
believed from the first requests on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tandem_autoscaler.model.line import Sample, Samples, fit
from tandem_autoscaler.model.prompt_lengths import Lengths
from tandem_autoscaler.model.queueing import Distribution, erlang_c

# Beyond these multiples of the prior a sample is not believed: from a GPU a hundred times as fast to a slow CPU.
LEAST_GAIN, MOST_GAIN = 1e-2, 1e5
# The first few requests of a load meet a queue that is only building up, and are no measure yet.
FEWEST_REQUESTS = 5.0
# With so few requests measured, the time gets a margin (ALGORITHM 4.5: 1.15 until 8 samples).
ENOUGH_REQUESTS = 8.0
UNSURE_FACTOR = 1.15
_MOST_WEIGHT = 20.0  # requests; one tick counts no more
_EXACT = 1e-13  # relative
# Weight of the prior's shape, in requests, against what the samples say.
_SHAPE_WEIGHT = 3.0


@dataclass(frozen=True)
class PrefillPrior:
    """Llama-3.1-8B in bf16 on one H100: b = 2 x 8e9 / (989e12 x 0.45), a = 10 ms per call."""

    base_seconds: float = 0.010
    seconds_per_token: float = 36e-6
    # 2.8e-5 and 2.7e-5 per token in the measured sweeps of an 8B and a 70B model (fp8, H200 and H100).
    curvature: float = 2.7e-5


@dataclass(frozen=True)
class PrefillModel:
    """`base_seconds` and `seconds_per_token` are None until learnt or remembered."""

    prior: PrefillPrior = field(default_factory=PrefillPrior)
    base_seconds: float | None = None
    seconds_per_token: float | None = None
    samples: Samples = field(default_factory=Samples)
    remembered: bool = False  # from before a restart: it stands until enough new samples say otherwise

    @property
    def requests(self) -> float:
        """Requests that it was learnt from."""
        return self.samples.weight

    @property
    def known(self) -> bool:
        """False until enough was measured here, or remembered."""
        return self.base_seconds is not None and (self.remembered or self.requests >= FEWEST_REQUESTS)

    @property
    def line(self) -> tuple[float, float]:
        """(seconds, seconds per unit of work): learnt, or else the prior's."""
        if self.base_seconds is None or self.seconds_per_token is None:
            return self.prior.base_seconds, self.prior.seconds_per_token
        return self.base_seconds, self.seconds_per_token

    def work(self, tokens: float) -> float:
        """x(n): `tokens` as if each cost the same."""
        return tokens + self.prior.curvature * tokens * tokens

    def seconds(self, tokens: float) -> float:
        """Service time of a prompt of which `tokens` are computed here."""
        base, slope = self.line
        return (base + slope * self.work(tokens)) * self._margin()

    def _margin(self) -> float:
        unsure = len(self.samples) and not self.remembered and self.requests < ENOUGH_REQUESTS
        return UNSURE_FACTOR if unsure else 1.0

    def distribution(self, found: Lengths) -> Distribution:
        """Service times of prompts with these (already shortened) lengths."""
        (base, slope), margin = self.line, self._margin()
        return [((base + slope * self.work(tokens)) * margin, share) for tokens, share in found]

    def sample(self, *, seconds: float | None, work: float, requests: float) -> Sample | None:
        """One pod's interval: mean service time (None: not to be told), mean work, number of requests.

        None when it says nothing that could be believed.
        """
        if seconds is None or not 0 < seconds < math.inf or not requests > 0 or not 0 < work < 1e12:
            return None
        # A prompt computes one token at least (as in `shortened`): a mean near zero would make the slope infinite.
        work = max(1.0, work)
        alone = self.prior.base_seconds + self.prior.seconds_per_token * work
        return Sample((work,), seconds, requests) if LEAST_GAIN <= seconds / alone <= MOST_GAIN else None

    def learn(self, at_seconds: float, found: Sequence[Sample]) -> "PrefillModel":
        """With one tick's samples."""
        if not found:
            return self
        samples = self.samples.plus(at_seconds, found, self.line, _MOST_WEIGHT)
        if self.remembered and samples.weight < FEWEST_REQUESTS:
            return replace(self, samples=samples)
        base, slope = fit(samples, at_seconds, self.line, shape_weight=_SHAPE_WEIGHT)
        return PrefillModel(self.prior, base, slope, samples)


def service_seconds(
    sojourn_seconds: float, per_second: float, service_scv: float = 0.0, *, workers: int = 1
) -> float | None:
    """Service time S from the mean time in a worker W and the completions per second x of one of `workers` like it.

    W = S + C(c, c x S) S (1 + cs2) / (2 c (1 - x S)), the mean of the very queue by which pools are sized
    (Allen-Cunneen), solved for S: what the router's choice among the workers saves is then in both. It needs no
    gauge and is exact at both ends: W for an idle worker, and 1/x (the saturation sample of ALGORITHM 4.5) for a
    full one, where W grows without bound. None when nothing was finished.
    """
    if not (sojourn_seconds > 0 and per_second > 0) or sojourn_seconds == float("inf"):
        return None
    k = (1.0 + min(1.0, max(0.0, service_scv))) / 2.0

    def excess(seconds: float) -> float:
        """(right-hand side - W) (1 - x S): without the pole, and of the same sign."""
        waiting = erlang_c(workers, workers * per_second * seconds)
        return (seconds - sojourn_seconds) * (1.0 - per_second * seconds) + waiting * seconds * k / workers

    # The right-hand side grows with S, from 0 to at least W or to infinity.
    low, high = 0.0, min(sojourn_seconds, 1.0 / per_second)
    below, above = -sojourn_seconds, excess(high)
    # Regula falsi. Where one end stays, its value is lowered as the other's fell (Anderson, Bjorck 1973).
    guess, side = high, 0
    while above > 0.0:
        before, guess = guess, (low * above - high * below) / (above - below)
        found = excess(guess)
        if found == 0.0 or abs(guess - before) <= _EXACT * guess:
            break
        if found > 0.0:
            below *= (max(0.0, 1.0 - found / above) or 0.5) if side > 0 else 1.0
            high, above, side = guess, found, 1
        else:
            above *= (max(0.0, 1.0 - found / below) or 0.5) if side < 0 else 1.0
            low, below, side = guess, found, -1
    return guess
