"""What one worker was found to serve."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rated:
    """Requests per second of a mix, 0: none. `first_is_late`: of more, first tokens would be late before the others.

    `terms`: what else the answer depends on; compared, not read.
    """

    at_seconds: float
    prompt_tokens: float
    output_tokens: float
    terms: Hashable
    requests_per_second: float
    first_is_late: bool

    def answers(self, mix: tuple[float, float], terms: Hashable, part: float) -> bool:
        """Was it found for about this (prompt tokens, output tokens), within that `part`, and on these terms?"""
        found = (self.prompt_tokens, self.output_tokens)
        return terms == self.terms and all(
            abs(now - then) <= part * then for now, then in zip(mix, found, strict=True)
        )
