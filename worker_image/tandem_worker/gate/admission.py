"""The seam where a request asks "may I go in".

A queue that knows the targets (demotion/) may hold a request back in `enter` for as long as it likes (the gate
counts it as in flight and ends it at the deadline), or refuse it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tandem_worker.gate.prompt import Prompt
from tandem_worker.gate.refusal import Refusal


class ClientGone(Exception):
    """The client has hung up before its request was let in."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A request as the gate saw it come: `at_seconds` on the gate's monotonic clock."""

    path: str
    at_seconds: float
    headers: Sequence[tuple[bytes, bytes]] = field(repr=False)
    generates: bool = False  # its path is one of those that serve generated text
    # Its first token will be seen to pass; of other answers only the end is.
    shows_first_token: bool = False
    prompt: Prompt | None = None  # read where the admission wants it; None: unknown
    until_gone: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)


class Admission(Protocol):
    """Lets requests in, in the order it likes."""

    reads_prompts: bool
    """Whether `Arrival.prompt` is wanted, which takes reading the body before the request may enter."""

    async def enter(self, arrival: Arrival) -> Refusal | None:
        """Return None when the request may go in now, or the refusal that its client gets.

        Raises:
            ClientGone: `arrival.until_gone` returned while the request waited.
        """
        ...

    def prompt_computed(self, arrival: Arrival) -> None:
        """The first token of a request inside has come. Called at most once, and before `leave`."""
        ...

    def leave(self, arrival: Arrival) -> None:
        """The request that `enter` let in has ended, however it did."""
        ...


class EveryoneMayEnter:
    """No queue: the engine's own decides."""

    reads_prompts = False

    async def enter(self, arrival: Arrival) -> Refusal | None:
        return None

    def prompt_computed(self, arrival: Arrival) -> None:
        return None

    def leave(self, arrival: Arrival) -> None:
        return None
