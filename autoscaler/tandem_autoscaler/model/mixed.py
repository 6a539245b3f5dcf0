"""The steps of a worker that computes prompts and answers together, learnt from how many there were.

While a worker is never idle, its seconds are those of its steps:

    seconds / steps = d0 + d1 B + d2 B c + b p

with B answers of c tokens of context and p prompt tokens per step (`mixed_step.py`). The engine counts its steps, the
tokens that it made and the prompts that it computed, and chance alone lets them vary enough against each other to tell
the four apart, where times per prompt and per token at a constant load cannot: either contains the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tandem_autoscaler.model.decode import DecodePrior
from tandem_autoscaler.model.line import Sample, Samples, fit
from tandem_autoscaler.model.mixed_step import MixedStep
from tandem_autoscaler.model.prefill import PrefillPrior

# Steps: one tick counts no more, and the shape of the priors holds against so many.
_MOST_WEIGHT, _SHAPE_WEIGHT = 200.0, 30.0
# Sequences in decode at once, in the mean, from which on a worker is hardly ever idle: exp(-3) of the time.
_NEVER_IDLE = 3.0
_ENOUGH = 8  # samples


@dataclass(frozen=True)
class MixedModel:
    """`coefficients` are d0, d1, d2, b; None until enough was seen."""

    decode_prior: DecodePrior = field(default_factory=DecodePrior)
    prefill_prior: PrefillPrior = field(default_factory=PrefillPrior)
    coefficients: tuple[float, ...] | None = None
    samples: Samples = field(default_factory=Samples)

    @property
    def step(self) -> MixedStep | None:
        """None until enough was seen."""
        if self.coefficients is None or len(self.samples) < _ENOUGH:
            return None
        base, each, context, prompt = self.coefficients
        if prompt <= 0.0:
            return None  # none was seen yet
        return MixedStep(base, each, context, prompt, prompt * self.prefill_prior.curvature)

    def sample(
        self,
        *,
        seconds: float,
        steps: float,
        tokens: float,
        context_tokens: float,
        prompt_work: float,
        running: float,
    ) -> Sample | None:
        """One worker's interval. `prompt_work`: sum of n + k n^2 of the prompts (`PrefillModel.work`).

        `running`: mean sequences in decode. None where the worker may have been idle.
        """
        if running < _NEVER_IDLE or steps < 1.0 or seconds <= 0.0:
            return None
        batch = max(1.0, tokens / steps)
        return Sample((batch, batch * context_tokens, max(prompt_work, 1.0) / steps), seconds / steps, steps)

    def learn(self, at_seconds: float, found: Sequence[Sample]) -> "MixedModel":
        """With one tick's samples."""
        if not found:
            return self
        shape = self.coefficients or self._shape()
        samples = self.samples.plus(at_seconds, found, shape, _MOST_WEIGHT)
        learnt = fit(samples, at_seconds, shape, shape_weight=_SHAPE_WEIGHT)
        return MixedModel(self.decode_prior, self.prefill_prior, learnt, samples)

    def _shape(self) -> tuple[float, ...]:
        each = self.decode_prior.seconds_per_sequence
        return (
            self.decode_prior.base_seconds, each, each * self.decode_prior.context_weight,
            self.prefill_prior.seconds_per_token,
        )  # fmt: skip
