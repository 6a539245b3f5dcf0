"""What a step of a colocated worker takes by itself, out of times that are mixed.

Prompts do r E[P] of each second, and r = B / (O tau) answers are begun per second, so that what is learnt as
tau = D0 + D1 B and as S(n) = A + B' (n + k n^2) has

    D0 = d0,   D1 = d1 + d2 c + E[P] / O,   A = latency + about 1.5 tau,   B' = b + tau / cap

because a prompt of n tokens waits for n / cap steps, cap being what one may have of a step.
"""

import math

from tandem_autoscaler.model.colocated import Traffic, Worker
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.mixed_step import Chunking, MixedStep
from tandem_autoscaler.model.prefill import PrefillModel

# However the measurements fall out: something of a prompt's time is its own, something of a sequence's its own.
_LEAST_SHARE = 0.05


def unmixed(
    prefill: PrefillModel, decode: DecodeModel, traffic: Traffic, *, batch: float, chunking: Chunking, kv_tokens: float,
    max_sequences: float,
) -> Worker:  # fmt: skip
    """The worker whose learnt times are these, at the present `batch` (sequences in decode per worker).

    Both models must be known. `kv_tokens` and `max_sequences` are its limits.
    """
    base, slope = decode.line_now
    tau = base + slope * max(1.0, batch)
    cap = float(chunking.threshold or chunking.budget) if chunking.enabled else math.inf
    alone, learnt = prefill.line
    per_token = max(_LEAST_SHARE * learnt, learnt - tau / cap)
    own = sum(per_token * prefill.work(tokens) * share for tokens, share in traffic.prompts)
    each = max(_LEAST_SHARE * slope, slope - own / traffic.output_tokens)
    per_sequence, per_context = split(decode, each, traffic.context_tokens)
    step = MixedStep(base, per_sequence, per_context, per_token, per_token * prefill.prior.curvature)
    return Worker(step, kv_tokens, max_sequences, max(0.0, alone - 1.5 * tau))


def split(decode: DecodeModel, slope: float, context: float) -> tuple[float, float]:
    """(per sequence, per token of context) that make `slope` at this context, in the learnt model's proportion."""
    per_context = decode.seconds_per_context_token
    if per_context is None or not decode.seconds_per_sequence:
        weight = decode.prior.context_weight
    else:
        weight = per_context / decode.seconds_per_sequence
    per_sequence = slope / (1.0 + weight * context)
    return per_sequence, per_sequence * weight
