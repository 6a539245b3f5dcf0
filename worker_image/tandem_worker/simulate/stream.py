"""A streamed answer: one event per step, written straight to ASGI (a hundred streams share one core)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tandem_worker.simulate import answers
from tandem_worker.simulate.engine import Engine, Ticket
from tandem_worker.simulate.protocol import StreamOptions


@asynccontextmanager
async def until_disconnect(receive: Receive, gone: Callable[[], None]) -> AsyncIterator[None]:
    """Call `gone` when the client hangs up inside the block."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()

    watching = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


class TokenStream(Response):
    """Server-sent events of one request, its end included."""

    def __init__(
        self, engine: Engine, ticket: Ticket, voice: answers.Voice, options: StreamOptions | None
    ) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self._engine = engine
        self._ticket = ticket
        self._voice = voice
        self._options = options or StreamOptions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ticket = self._ticket
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with until_disconnect(receive, lambda: self._engine.abort(ticket)):
                await self._write(send)
        finally:
            self._engine.abort(ticket)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send) -> None:
        ticket, voice, options = self._ticket, self._voice, self._options
        usage_in_each = options.include_usage and options.continuous_usage_stats
        role = voice.role()
        written = 0
        while True:
            new = await ticket.tokens()
            if ticket.error is not None:
                await _say(send, answers.event(answers.error(500, ticket.error, "InternalServerError")))
                break
            if new and role is not None:
                await _say(send, role)
                role = None
            reason = ticket.finish_reason  # set with the last token
            if new or reason == "abort":
                await _say(send, voice.piece(written, new, reason, self._usage() if usage_in_each else None))
                written += new
            if reason is not None:
                if options.include_usage:
                    await _say(send, voice.closing_usage(self._usage()))
                break
        await _say(send, answers.DONE)

    def _usage(self) -> dict[str, int]:
        sequence = self._ticket.sequence
        return answers.usage(sequence.prompt_tokens, sequence.generated_tokens)


async def _say(send: Send, event: bytes) -> None:
    await send({"type": "http.response.body", "body": event, "more_body": True})
