"""One step of an engine that computes pieces of prompts and one token of each running answer together (ALGORITHM 4.2).

tau = d0 + d1 B + d2 K + b p + c ((x + p)^2 - x^2): B answers, K tokens of context of all that take part, and for each
prompt in the step p of its tokens after x computed ones. d0 is what every step costs: the reading of the weights.
"""

from dataclasses import dataclass

# vLLM's for its API server on GPUs below 70 GB and on CPUs (engine/arg_utils.py, 0.32); 8192 above.
DEFAULT_BUDGET = 2048


@dataclass(frozen=True)
class Chunking:
    """How prompts are cut into steps, in vLLM's words.

    `budget` is max_num_batched_tokens: tokens of one step, answers first. `threshold` is long_prefill_token_threshold:
    most tokens of one prompt in one step while anyone else is there; 0: the first prompt may take the whole budget.
    Not `enabled`: a prompt is computed in one step, and `budget` must hold the longest. There is no further switch:
    vLLM's V1 scheduler never heeded max_num_partial_prefills (vllm#49075), and 0.32 has it no more.
    """

    budget: int = DEFAULT_BUDGET
    threshold: int = 0
    enabled: bool = True


@dataclass(frozen=True)
class MixedStep:
    """Seconds; `per_token` and `per_token_squared` are b and c of a prompt's own time S(n) = a + b n + c n^2."""

    base: float
    per_sequence: float
    per_context: float
    per_token: float
    per_token_squared: float = 0.0

    def seconds(self, sequences: float, context: float, prompt: float = 0.0, computed: float = 0.0) -> float:
        """Of a step with so many answers, tokens of context, and tokens of one prompt after its `computed` ones."""
        return (
            self.base
            + self.per_sequence * sequences
            + self.per_context * context
            + self.of_prompt(prompt, computed)
        )

    def of_prompt(self, tokens: float, computed: float = 0.0) -> float:
        """What they add to a step."""
        return self.per_token * tokens + self.per_token_squared * tokens * (2.0 * computed + tokens)
