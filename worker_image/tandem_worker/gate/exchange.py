"""One request and its answer on their way through the gate.

The answer's head is held back until the first piece of its body: only then is it known whether there is
an answer, and a status once sent cannot be taken back. What then passes is read, not changed, except that
an abort becomes an error.
"""

import asyncio
from collections.abc import Callable
from enum import Enum

from tandem_worker.gate import events
from tandem_worker.gate.asgi import Message, Receive, Send
from tandem_worker.gate.measures import Measures, Outcome
from tandem_worker.gate.refusal import ABORTED, CUT_AT_DEADLINE, EMPTY_ANSWER, ENDED_WITHOUT_END, Refusal

# More than any answer says before its first content; beyond it nothing is held back.
HELD_BYTES = 4096
# A client that does not read cannot hold up the end of its own stream for longer.
LAST_WORDS_SECONDS = 5.0


_QUOTE = ord('"')
_GOES_ON = b'"finish_reason":null'


class PathKind(Enum):
    """What is known of the answers of a path."""

    ANSWER = "answer"  # completions and chat: timed, and an answer must have an end
    TIMED = "timed"  # other streams of generated text
    OTHER = "other"


class Exchange:
    """Wraps `receive` and `send` of one request; `cut` ends it from outside."""

    __slots__ = (
        "_body", "_carry", "_client_gone", "_clock", "_content_key", "_cut", "_done", "_ended", "_event_count",
        "_finished_choices", "_first_seconds", "_head", "_head_sent", "_held", "_last_seconds", "_measures",
        "_over", "_path", "_prompt_computed", "_receive", "_send", "_started_seconds", "_status", "_streaming",
        "_task", "_tokens", "outcome", "prompt_tokens",
    )  # fmt: skip

    def __init__(
        self,
        receive: Receive,
        send: Send,
        measures: Measures,
        clock: Callable[[], float],
        path: PathKind,
        prompt_computed: Callable[[int | None], None],
    ) -> None:
        self._receive = receive
        self._send = send
        self._measures = measures
        self._clock = clock
        self._path = path
        self._prompt_computed = prompt_computed  # called once or never: the first token is seen
        self._started_seconds = clock()
        self._task = asyncio.current_task()
        self._head: Message | None = None
        self._head_sent = False
        self._status = 0
        self._streaming = False
        self._body = b""
        self._carry = b""
        self._cut = False
        self._over = False  # the app has ended or been given up; nothing of its own passes any more
        self._ended = False  # the client has got an end
        self._client_gone = False
        self._finished_choices = 0
        self._content_key = b""
        self._done = False  # the stream has told its end or an error
        self._held = b""  # events without content that came before the head was sent
        self._first_seconds: float | None = None
        self._last_seconds = 0.0
        self._event_count = 0
        self._tokens: int | None = None
        self.prompt_tokens: int | None = None  # as usage tells
        self.outcome: Outcome | None = None

    # --- from outside -------------------------------------------------------------------------------------
    def cut(self) -> None:
        """End the request now, unless its end is under way."""
        if self._ended or self._over:
            return
        if self._head_sent and not self._streaming:
            return  # a plain answer has begun: its end is a matter of moments, and cannot be told otherwise
        self._cut = True
        if self._task is not None:
            self._task.cancel()

    @property
    def was_cut(self) -> bool:
        return self._cut

    async def refuse(self, refusal: Refusal) -> None:
        """The request was not let in."""
        self.outcome = Outcome.REJECTED
        await self._last_words(refusal)

    async def finish(self, failure: BaseException | None) -> None:
        """The app is through, by return or by `failure`: give the client an end where it has none."""
        self._over = True
        if self._ended:
            return
        if self._cut:
            self.outcome = Outcome.ABORTED
            await self._last_words(CUT_AT_DEADLINE)
        elif self._client_gone:
            self.outcome = Outcome.CLIENT_GONE
        elif failure is not None:
            self.outcome = Outcome.ERROR  # the server above makes it a 500, or closes the connection
        else:
            self.outcome = Outcome.ERROR
            await self._last_words(EMPTY_ANSWER)

    # --- what the app calls -------------------------------------------------------------------------------
    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._ended:
            self._client_gone = True
        return message

    async def send(self, message: Message) -> None:
        if self._cut or self._ended:
            return  # what an app says after its end was told would contradict it
        kind = message["type"]
        if kind == "http.response.body":
            if self._streaming:
                await self._pass_stream(message)
            else:
                await self._pass_plain(message)
        elif kind == "http.response.start":
            self._head = message
            self._status = message["status"]
            self._streaming = self._status == 200 and any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in message["headers"]
            )
        else:
            await self._send(message)

    # --- streams ------------------------------------------------------------------------------------------
    async def _pass_stream(self, message: Message) -> None:
        body = message.get("body", b"")
        more = message.get("more_body", False)
        if self._carry or len(body) < 2 or body.find(b"\n\n") != len(body) - 2:
            await self._pass_pieces(body, more)
            return
        # The usual case: one whole event in one message.
        if self._note(body) is not None:
            await self._end_stream(ABORTED, Outcome.ABORTED)
        elif not self._head_sent:
            await self._begin_stream(body, more)
        else:
            await self._forward({**message, "more_body": True} if not more else message)
            if not more:
                await self._close_stream()

    async def _begin_stream(self, piece: bytes, more: bool) -> None:
        """Send the head with the first content. What comes before it (the role of a chat answer) is held back,
        so that a request of which nothing has come can still be refused with a status of its own."""
        self._held += piece
        nothing_yet = self._first_seconds is None and not self._finished_choices and self.outcome is None
        nothing_yet = (
            nothing_yet and self._path is PathKind.ANSWER
        )  # what counts as content elsewhere is not known
        # A comment keeps the connection alive: it must not wait.
        if more and nothing_yet and len(self._held) < HELD_BYTES and not piece.startswith(b":"):
            return
        if more or not nothing_yet:
            await self._send_head()
            await self._forward({"type": "http.response.body", "body": self._held, "more_body": True})
            self._held = b""
        if not more:
            await self._close_stream()

    async def _pass_pieces(self, body: bytes, more: bool) -> None:
        """Events that come in several messages or several in one."""
        whole, self._carry = events.split_events(self._carry + body)
        if not more and self._carry:
            whole, self._carry = [*whole, self._carry], b""
        passed = []
        aborted = False
        for event in whole:
            aborted = self._note(event) is not None
            if aborted:
                break
            passed.append(event)
        piece = b"".join(passed)
        if aborted:
            if self._first_seconds is not None and piece:
                await self._send_head()
                await self._forward(
                    {"type": "http.response.body", "body": self._held + piece, "more_body": True}
                )
            await self._end_stream(ABORTED, Outcome.ABORTED)
        elif not self._head_sent:
            if piece or not more:
                await self._begin_stream(piece, more)
        else:
            if piece:
                await self._forward({"type": "http.response.body", "body": piece, "more_body": True})
            if not more:
                await self._close_stream()

    def _note(self, event: bytes) -> bytes | None:
        """Count and time an event; returns it when it says that the engine has aborted."""
        # The usual event is content of a stream that goes on. The key that held content once will again.
        at = event.find(self._content_key) if self._content_key else -1
        if at >= 0 and event[at + len(self._content_key)] != _QUOTE and _GOES_ON in event:
            self._last_seconds = self._clock()
            self._event_count += 1
            return None
        prompt_tokens = events.prompt_tokens(event)
        if prompt_tokens is not None:
            self.prompt_tokens = prompt_tokens
        key = events.content_key(event)
        if key is not None:
            now = self._clock()
            if self._first_seconds is None:
                self._first_seconds = now
                self._content_key = key
                if self._path is not PathKind.OTHER:
                    self._measures.observe_ttft(now - self._started_seconds, now)
                    self._prompt_computed(self.prompt_tokens)
            self._last_seconds = now
            self._event_count += 1
        reason = events.finish_reason(event)
        if reason == b"abort":
            return event
        if reason is not None:
            self._finished_choices += 1
        if events.says_done(event):
            self._done = True
        if events.is_error(event):
            self._done = True
            self.outcome = Outcome.ERROR
        tokens = events.completion_tokens(event)
        if tokens is not None:
            self._tokens = tokens
        return None

    async def _close_stream(self) -> None:
        """The app's stream is at its end: pass the end on if there was an answer, else say that there was none."""
        if self._path is PathKind.ANSWER and not self._finished_choices and self.outcome is None:
            if self._first_seconds is None:
                await self._end_stream(EMPTY_ANSWER, Outcome.ERROR)
                return
            if not self._done:
                await self._end_stream(ENDED_WITHOUT_END, Outcome.ERROR)
                return
        self._ended = True
        if not self._head_sent:
            await self._send_head()
        self.outcome = Outcome.CLIENT_GONE if self._client_gone else self.outcome or Outcome.OK
        self._observe_tpot()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _observe_tpot(self) -> None:
        if self._path is PathKind.OTHER or self._first_seconds is None or self.outcome is not Outcome.OK:
            return
        tokens: float = self._event_count if self._tokens is None else self._tokens
        tokens /= max(1, self._finished_choices)  # `n` choices run side by side
        # One token has no time between tokens; all in one event cannot be timed.
        if tokens > 1 and self._event_count > 1:
            spent = self._last_seconds - self._first_seconds
            counted_by = "events" if self._tokens is None else "usage"
            self._measures.observe_tpot(spent / (tokens - 1), self._last_seconds, counted_by=counted_by)

    async def _end_stream(self, refusal: Refusal, outcome: Outcome) -> None:
        """End with an error; whole, when nothing has been sent yet."""
        self.outcome = outcome
        await self._last_words(refusal)

    # --- plain answers ------------------------------------------------------------------------------------
    async def _pass_plain(self, message: Message) -> None:
        more = message.get("more_body", False)
        if self._path is not PathKind.ANSWER or self._status != 200:
            await self._send_head()
            if not more:
                self._ended = True
                self.outcome = _outcome_of(self._status)
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if more:
            return
        if events.finish_reason(self._body) == b"abort":
            await self._end_stream(ABORTED, Outcome.ABORTED)
            return
        if not self._body:
            await self._end_stream(EMPTY_ANSWER, Outcome.ERROR)
            return
        self.prompt_tokens = events.prompt_tokens(self._body)
        if events.completion_tokens(self._body) == 1:
            # One token: the answer is the first token (the prefill leg of a disaggregated request).
            now = self._clock()
            self._measures.observe_ttft(now - self._started_seconds, now)
            self._prompt_computed(self.prompt_tokens)
        self._ended = True
        self.outcome = Outcome.OK
        await self._send_head()
        await self._send({"type": "http.response.body", "body": self._body, "more_body": False})

    async def _forward(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:
            self._client_gone = True
            raise

    # --- the way out --------------------------------------------------------------------------------------
    async def _send_head(self) -> None:
        if not self._head_sent and self._head is not None:
            self._head_sent = True
            await self._send(self._head)

    async def _last_words(self, refusal: Refusal) -> None:
        """Tell the client how its request ended, without waiting for one that does not read."""
        self._ended = True
        if self._client_gone:
            self.outcome = Outcome.CLIENT_GONE
            return
        if not self._head_sent:
            messages = refusal.messages()
            self._head_sent = True
        elif self._streaming:
            messages = [{"type": "http.response.body", "body": refusal.event(), "more_body": False}]
        else:
            return  # a plain answer that stopped half way: the server closes the connection
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                for message in messages:
                    await self._send(message)
        except (TimeoutError, OSError):
            self.outcome = Outcome.CLIENT_GONE


def _outcome_of(status: int) -> Outcome:
    if status < 400:
        return Outcome.OK
    return Outcome.REJECTED if status < 500 or status == 503 else Outcome.ERROR
