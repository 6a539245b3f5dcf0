"""Bytes into tokens: four bytes a token, corrected by what the engine has counted."""

import re

from tandem_worker.gate.prompt import Prompt

FIRST_TOKENS_PER_BYTE = 0.25
# Nothing that people write lies outside: one byte a token, or one token for sixteen.
TOKENS_PER_BYTE_RANGE = (1 / 16, 1.0)
# What the first guess weighs, and how much of what was learnt each new prompt leaves: about the last hundred count.
GUESS_WEIGHS_BYTES = 1000.0
KEPT = 0.99
# A scrape that saw less than this tells more of its own timing than of the ratio.
LEAST_TOKENS_BETWEEN_SCRAPES = 1000.0

_PROMPT_TOKENS_TOTAL = re.compile(rb"^vllm:prompt_tokens_total(?:\{[^}]*\})? ([0-9.eE+]+)$", re.MULTILINE)


class PromptLengths:
    """Estimates prompt lengths in tokens. Learns from usage where answers carry it, and from the engine's counter.

    The counter is the only source where clients stream without asking for usage. It moves with the first token of
    a request, as `computed` is called.
    """

    def __init__(self) -> None:
        self._bytes = GUESS_WEIGHS_BYTES
        self._tokens = GUESS_WEIGHS_BYTES * FIRST_TOKENS_PER_BYTE
        self._engine_total: float | None = None
        self._bytes_since_scrape = 0
        self._ids_since_scrape = 0
        self._untold_since_scrape = False

    @property
    def tokens_per_byte(self) -> float:
        low, high = TOKENS_PER_BYTE_RANGE
        return min(max(self._tokens / self._bytes, low), high)

    def tokens_of(self, prompt: Prompt | None) -> float | None:
        """The estimated length; None where the body does not tell it."""
        if prompt is None or prompt.has_media:
            return None
        return prompt.token_ids + prompt.text_bytes * self.tokens_per_byte

    def counted(self, prompt: Prompt | None, tokens: int) -> None:
        """The engine's usage says that `prompt` had `tokens`."""
        if prompt is None or prompt.has_media or not prompt.text_bytes or tokens <= prompt.token_ids:
            return
        self._learn(prompt.text_bytes, tokens - prompt.token_ids, KEPT)

    def computed(self, prompt: Prompt | None) -> None:
        """The prompt's first token has come: the engine's counter holds it from now on."""
        if prompt is None or prompt.has_media:
            self._untold_since_scrape = True
            return
        self._bytes_since_scrape += prompt.text_bytes
        self._ids_since_scrape += prompt.token_ids

    def scraped(self, engine_metrics: bytes) -> None:
        """The engine's own exposition: compare what it has counted since the last one with the bytes seen."""
        found = _PROMPT_TOKENS_TOTAL.findall(engine_metrics)
        if not found:
            return
        total = sum(float(value) for value in found)
        before, self._engine_total = self._engine_total, total
        tokens = total - (before if before is not None else total) - self._ids_since_scrape
        seen, told = self._bytes_since_scrape, not self._untold_since_scrape
        if 0 <= tokens < LEAST_TOKENS_BETWEEN_SCRAPES and told and before is not None:
            self._engine_total = before  # too few to tell: look again with more
            return
        low, high = TOKENS_PER_BYTE_RANGE
        if told and before is not None and seen and low <= tokens / seen <= high:
            self._learn(seen, tokens, 0.5)
        self._bytes_since_scrape = self._ids_since_scrape = 0
        self._untold_since_scrape = False

    def _learn(self, text_bytes: float, tokens: float, kept: float) -> None:
        self._bytes = self._bytes * kept + text_bytes
        self._tokens = self._tokens * kept + tokens
