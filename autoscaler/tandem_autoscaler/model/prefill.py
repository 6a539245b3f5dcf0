"""How long a worker computes one prompt, alone: S(n) = a + b n, n the tokens that it computes itself.

The hardware may be unknown (a CPU, a new GPU), so the line may lie orders of magnitude from the prior's, and is
believed from the first requests on.
"""

from dataclasses import dataclass, field, replace

from tandem_autoscaler.model.line import Line, Sample, fit, with_sample
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
# Weight of the prior's shape, in requests, against what the samples say.
_SHAPE_WEIGHT = 3.0


@dataclass(frozen=True)
class PrefillPrior:
    """Llama-3.1-8B in bf16 on one H100: b = 2 x 8e9 / (989e12 x 0.45), a = 10 ms per call."""

    base_seconds: float = 0.010
    seconds_per_token: float = 36e-6


@dataclass(frozen=True)
class PrefillModel:
    """`base_seconds` and `seconds_per_token` are None until learnt or remembered."""

    prior: PrefillPrior = field(default_factory=PrefillPrior)
    base_seconds: float | None = None
    seconds_per_token: float | None = None
    samples: tuple[Sample, ...] = ()
    remembered: bool = False  # from before a restart: it stands until enough new samples say otherwise

    @property
    def requests(self) -> float:
        """Requests that it was learnt from."""
        return sum(sample.weight for sample in self.samples)

    @property
    def known(self) -> bool:
        """False until enough was measured here, or remembered."""
        return self.base_seconds is not None and (self.remembered or self.requests >= FEWEST_REQUESTS)

    def _line(self) -> Line:
        if self.base_seconds is None or self.seconds_per_token is None:
            return Line(self.prior.base_seconds, self.prior.seconds_per_token)
        return Line(self.base_seconds, self.seconds_per_token)

    def seconds(self, tokens: float) -> float:
        """Service time of a prompt of which `tokens` are computed here."""
        unsure = self.samples and not self.remembered and self.requests < ENOUGH_REQUESTS
        return self._line().at(tokens) * (UNSURE_FACTOR if unsure else 1.0)

    def distribution(self, found: Lengths) -> Distribution:
        """Service times of prompts with these (already shortened) lengths."""
        return [(self.seconds(tokens), share) for tokens, share in found]

    def learn(
        self, at_seconds: float, *, sojourn_seconds: float, finished_per_second: float, tokens: float, weight: float,
        service_scv: float = 0.0, workers: int = 1,
    ) -> "PrefillModel":  # fmt: skip
        """One pod's interval: mean time from arrival to first token, completions per second, mean tokens.

        The time contains the wait; `service_seconds` takes it out. `weight` is the number of requests.
        """
        service = service_seconds(sojourn_seconds, finished_per_second, service_scv, workers=workers)
        if service is None or not weight > 0 or not 0 < tokens < 1e9:
            return self
        # A prompt computes one token at least (as in `shortened`): a mean near zero would make the slope infinite.
        tokens = max(1.0, tokens)
        alone = self.prior.base_seconds + self.prior.seconds_per_token * tokens
        if not LEAST_GAIN <= service / alone <= MOST_GAIN:
            return self
        samples = with_sample(self.samples, Sample(at_seconds, tokens, service, min(weight, _MOST_WEIGHT)))
        learnt = replace(self, samples=samples)
        if self.remembered and learnt.requests < FEWEST_REQUESTS:
            return learnt
        line = fit(samples, at_seconds, self._line(), shape_weight=_SHAPE_WEIGHT)
        return replace(learnt, base_seconds=line.base, seconds_per_token=line.slope, remembered=False)


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
    low, high = 0.0, min(sojourn_seconds, 1.0 / per_second)
    # The right-hand side grows with S, from 0 to at least W or to infinity.
    for _ in range(40):
        middle = (low + high) / 2
        free = 1.0 - per_second * middle
        waiting = erlang_c(workers, workers * per_second * middle)
        if free <= 0 or middle + waiting * middle * k / (workers * free) > sojourn_seconds:
            high = middle
        else:
            low = middle
    return high
