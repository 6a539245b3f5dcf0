"""The body of a request on its way to the app: it may be read ahead, and reaches the app as it came."""

import asyncio
from collections import deque

from tandem_worker.gate.asgi import Message, Receive
from tandem_worker.gate.prompt import Prompt, read_prompt

# A prompt of 128k tokens, as text or as ids, is below 1 MiB; what is longer carries media.
MAX_BODY_BYTES = 4 << 20


class RequestBody:
    """Wraps `receive`. Of a body beyond `MAX_BODY_BYTES` no more is kept or read ahead."""

    __slots__ = ("_ahead", "_complete", "_pieces", "_prompt", "_receive", "_size", "client_gone")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ahead: deque[Message] = deque()
        self._pieces: list[bytes] = []
        self._size = 0
        self._complete = False
        self._prompt: Prompt | None = None
        self.client_gone = False

    async def receive(self) -> Message:
        """What the app calls."""
        if self._ahead:
            return self._ahead.popleft()
        message = await self._receive()
        self._keep(message)
        return message

    async def read_ahead(self) -> None:
        """Read to the end, the bound, or until the client has gone."""
        while not (self._complete or self.client_gone or self._size > MAX_BODY_BYTES):
            message = await self._receive()
            self._keep(message)
            self._ahead.append(message)

    async def until_gone(self) -> None:
        """Return once the client has hung up. Safe to cancel: no message is lost."""
        if not self._complete:
            # The rest of a long body is not ours to read; the app will find out.
            await asyncio.get_running_loop().create_future()
        while not self.client_gone:
            message = await self._receive()
            self._keep(message)
            self._ahead.append(message)

    def prompt(self) -> Prompt | None:
        """The prompt of a body that has come whole; None of one too long or not understood. What was kept is let go."""
        if self._pieces:
            if self._complete:
                self._prompt = read_prompt(b"".join(self._pieces))
            self._pieces = []
        return self._prompt

    def _keep(self, message: Message) -> None:
        if message["type"] != "http.request":
            self.client_gone = True
            return
        if self._complete:
            return
        piece = message.get("body", b"")
        self._size += len(piece)
        self._complete = not message.get("more_body", False)
        if self._size > MAX_BODY_BYTES:
            self._pieces = []
        elif piece:
            self._pieces.append(piece)
