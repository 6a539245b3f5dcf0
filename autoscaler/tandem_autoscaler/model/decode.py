"""How long one token takes in a batch of B with contexts of c tokens: tau = d0 + d1 B + d2 B c (ALGORITHM 4.2).

On a GPU d0 (reading the weights) rules and batching is nearly free; on a CPU d1 rules; with long contexts d2 does, the
reading of the KV cache. Neither the size nor the proportions of the prior need be right: all three are learnt from time
per token, batch and context, the proportions only as far as batches and contexts of different size were seen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tandem_autoscaler.model.line import Sample, Samples, fit

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
    seconds_per_sequence: float = 0.00034
    # d2 / d1: 8.4e-4 (8B on H200) and 2.3e-3 (70B on four H100) per token in the measured sweeps.
    context_weight: float = 1e-3


@dataclass(frozen=True)
class DecodeModel:
    """The three coefficients are None until learnt or remembered."""

    prior: DecodePrior = field(default_factory=DecodePrior)
    context_tokens: float = 1.0  # of the sequences that are asked about: a mean prompt and half an output
    context_scv: float = 0.0  # squared coefficient of variation of their lengths
    base_seconds: float | None = None
    seconds_per_sequence: float | None = None
    seconds_per_context_token: float | None = None
    samples: Samples = field(default_factory=Samples)

    @property
    def known(self) -> bool:
        return self.base_seconds is not None and self.seconds_per_sequence is not None

    @property
    def proven(self) -> bool:
        """True when batches of several sizes, or small ones, were seen: then tau(1) is no guess.

        What was remembered from before a restart was proven then.
        """
        if not len(self.samples):
            return self.known
        least, most = float(self.samples.first_x.min()), float(self.samples.first_x.max())
        return least <= 2.0 or most >= 2.0 * least

    def at_context(self, tokens: float, scv: float = 0.0) -> "DecodeModel":
        """The same model, asked about sequences of so many tokens."""
        tokens, scv = max(1.0, tokens), max(0.0, scv)
        if (tokens, scv) == (self.context_tokens, self.context_scv):
            return self
        return DecodeModel(
            self.prior, tokens, scv, self.base_seconds, self.seconds_per_sequence, self.seconds_per_context_token,
            self.samples,
        )  # fmt: skip

    @property
    def spread(self) -> float:
        """By how much more the cost of a batch varies than its number of sequences: sqrt(1 + w^2 scv).

        w is the part of a sequence's cost that its context makes. One sequence of a hundred thousand tokens slows all.
        """
        _, each, context = self._coefficients()
        of_context = context * self.context_tokens
        weight = of_context / (each + of_context) if each + of_context > 0 else 0.0
        return math.sqrt(1.0 + weight * weight * self.context_scv)

    def _coefficients(self) -> tuple[float, float, float]:
        """(d0, d1, d2)."""
        if self.base_seconds is None or self.seconds_per_sequence is None:
            each = self.prior.seconds_per_sequence
            return self.prior.base_seconds, each, each * self.prior.context_weight
        context = self.seconds_per_context_token
        if context is None:
            context = self.seconds_per_sequence * self.prior.context_weight
        return self.base_seconds, self.seconds_per_sequence, context

    @property
    def line_now(self) -> tuple[float, float]:
        """(d0, cost of one more sequence at `context_tokens`)."""
        base, each, context = self._coefficients()
        return base, each + context * self.context_tokens

    def seconds(self, batch: float) -> float:
        """Time per token with `batch` sequences at once."""
        base, slope = self.line_now
        return base + slope * batch

    def largest_batch(self, target_seconds: float, most: float) -> float:
        """The largest batch whose time per token is within the target, at most `most`; below 1 means: none.

        A real number: whole ones would make the need jump with the noise of the fit.
        """
        base, slope = self.line_now
        if slope <= 0:
            return most if base <= target_seconds else 0.0
        return min(most, (target_seconds - base) / slope)

    def sample(self, *, batch: float, seconds: float, tokens: float) -> Sample | None:
        """One pod's interval: mean sequences per step, mean time per token, tokens produced, at `context_tokens`."""
        if not (seconds > 0 and tokens > 0 and batch > 0) or seconds == float("inf"):
            return None
        batch = max(1.0, batch)
        return Sample((batch, batch * self.context_tokens), seconds, tokens)

    def learn(self, at_seconds: float, found: Sequence[Sample]) -> "DecodeModel":
        """With one tick's samples."""
        if not found:
            return self
        samples = self.samples.plus(at_seconds, found, self._coefficients(), _MOST_WEIGHT)
        base, each, context = fit(samples, at_seconds, self._coefficients(), shape_weight=_SHAPE_WEIGHT)
        return DecodeModel(
            self.prior, self.context_tokens, self.context_scv, base, each, context, samples
        )  # fmt: skip
