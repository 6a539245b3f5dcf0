"""How long one token takes in a batch of B: tau(B) = d0 + d1 B, learnt from time per token and batch.

On a GPU d0 (reading the weights) rules and batching is nearly free; on a CPU d1 rules. Neither the size nor the
shape of the prior need be right, so both are fitted, the shape only as far as batches of different size were seen.
"""

from dataclasses import dataclass, field, replace

from tandem_autoscaler.model.line import Line, Sample, fit, with_sample

_MOST_WEIGHT = 200.0  # tokens; one tick counts no more
# Weight of the prior's shape, in tokens, against what the samples say.
_SHAPE_WEIGHT = 30.0


@dataclass(frozen=True)
class DecodePrior:
    """d0: Llama-3.1-8B in bf16 on one H100, 16 GB / (3.35 TB/s x 0.7).

    The shape d1 / d0 is 0.01 to 0.02 there (KV of a few thousand tokens, arithmetic) and about 1 on a CPU. Before
    batches of several sizes were seen the middle is taken: a wrong guess then costs a worker, not the target.
    """

    base_seconds: float = 0.0068
    seconds_per_sequence: float = 0.00068


@dataclass(frozen=True)
class DecodeModel:
    """`base_seconds` and `seconds_per_sequence` are None until learnt or remembered."""

    prior: DecodePrior = field(default_factory=DecodePrior)
    base_seconds: float | None = None
    seconds_per_sequence: float | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def known(self) -> bool:
        return self.base_seconds is not None and self.seconds_per_sequence is not None

    @property
    def proven(self) -> bool:
        """True when batches of several sizes, or small ones, were seen: then tau(1) is no guess.

        What was remembered from before a restart was proven then.
        """
        if not self.samples:
            return self.known
        batches = [sample.x for sample in self.samples]
        return min(batches) <= 2.0 or max(batches) >= 2.0 * min(batches)

    @property
    def base_seconds_now(self) -> float:
        return self._line()[0]

    @property
    def seconds_per_sequence_now(self) -> float:
        return self._line()[1]

    def _line(self) -> tuple[float, float]:
        if self.base_seconds is None or self.seconds_per_sequence is None:
            return self.prior.base_seconds, self.prior.seconds_per_sequence
        return self.base_seconds, self.seconds_per_sequence

    def seconds(self, batch: float) -> float:
        """Time per token with `batch` sequences at once."""
        base, slope = self._line()
        return base + slope * batch

    def largest_batch(self, target_seconds: float, most: float) -> float:
        """The largest batch whose time per token is within the target, at most `most`; below 1 means: none.

        A real number: whole ones would make the need jump with the noise of the fit.
        """
        base, slope = self._line()
        if slope <= 0:
            return most if base <= target_seconds else 0.0
        return min(most, (target_seconds - base) / slope)

    def learn(self, at_seconds: float, *, batch: float, seconds: float, tokens: float) -> "DecodeModel":
        """One pod's interval: mean sequences per step, mean time per token, tokens produced."""
        if not (seconds > 0 and tokens > 0 and batch > 0) or seconds == float("inf"):
            return self
        sample = Sample(at_seconds, max(1.0, batch), seconds, min(tokens, _MOST_WEIGHT))
        samples = with_sample(self.samples, sample)
        line = fit(samples, at_seconds, Line(*self._line()), shape_weight=_SHAPE_WEIGHT)
        return replace(self, base_seconds=line.base, seconds_per_sequence=line.slope, samples=samples)
