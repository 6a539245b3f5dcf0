"""One request's prompt: told of exactly once, when it has been computed."""

from collections.abc import Callable

from tandem_worker.gate.body import RequestBody
from tandem_worker.gate.measures import Measures
from tandem_worker.gate.prompt import Prompt
from tandem_worker.gate.prompt_lengths import PromptLengths


class PromptWatch:
    """Observes the prompt's length and teaches `lengths`; `on_computed` lets the admission queue know."""

    __slots__ = (
        "_clock",
        "_computed",
        "_elsewhere",
        "_inside",
        "_lengths",
        "_measures",
        "_observed",
        "body",
        "on_computed",
    )

    def __init__(
        self,
        measures: Measures,
        lengths: PromptLengths,
        clock: Callable[[], float],
        *,
        elsewhere: bool = False,
    ) -> None:
        self._clock = clock
        self._elsewhere = elsewhere  # no prompt is computed here, whatever its request says
        self._inside = False
        self._measures = measures
        self._lengths = lengths
        self._computed = False
        self._observed = False
        self.body: RequestBody | None = None  # None: not a path whose prompts are known
        self.on_computed: Callable[[], None] | None = None

    def entered(self) -> None:
        """It goes into the engine now."""
        if self.body is not None:
            self._inside = True
            self._measures.prefill_busy.begin(self._clock())

    def _out(self) -> None:
        if self._inside:
            self._inside = False
            self._measures.prefill_busy.end(self._clock())

    def computed(self, usage_tokens: int | None = None) -> None:
        """The first token has come; usage tells the length here already, or later, or never."""
        if self._computed or self.body is None:
            return
        self._computed = True
        self._out()
        prompt = self.body.prompt()
        # One of elsewhere is counted by the worker that has computed it.
        if not self._is_elsewhere(prompt):
            self._lengths.computed(prompt)
            self._observe(usage_tokens or self._lengths.tokens_of(prompt))
        if self.on_computed is not None:
            self.on_computed()

    def ended(self, usage_tokens: int | None, *, served: bool) -> None:
        """The request has ended; `served`: with a whole answer, so its prompt was computed whether seen or not."""
        self._out()
        if self.body is None:
            return
        if served:
            self.computed(usage_tokens)
        prompt = self.body.prompt()
        if usage_tokens is None or self._is_elsewhere(prompt):
            return
        self._lengths.counted(prompt, usage_tokens)
        if self._computed:
            self._observe(usage_tokens)

    def _is_elsewhere(self, prompt: Prompt | None) -> bool:
        return self._elsewhere or (prompt is not None and prompt.kv_elsewhere)

    def _observe(self, tokens: float | None) -> None:
        if tokens is not None and not self._observed:
            self._observed = True
            self._measures.prompt_tokens.observe(tokens)
