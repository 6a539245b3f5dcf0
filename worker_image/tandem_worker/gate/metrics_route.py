"""The engine's /metrics with the gate's own behind it, so that one scrape gets both."""

from collections.abc import Awaitable, Callable

from tandem_worker.gate.asgi import App, Message, Receive, Scope, Send

# Without these the engine answers in the plain text format, uncompressed, which can be appended to.
_NEGOTIATION = (b"accept", b"accept-encoding")


async def append_measures(
    app: App, scope: Scope, receive: Receive, send: Send, measures: Callable[[bytes], Awaitable[bytes]]
) -> None:
    """Run `app` for /metrics and append what `measures` returns to a successful answer, which it is shown."""
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _NEGOTIATION]
    head: Message | None = None
    body = b""

    async def collect(message: Message) -> None:
        nonlocal head, body
        if message["type"] == "http.response.start":
            head = message
        elif message["type"] == "http.response.body":
            body += message.get("body", b"")

    await app({**scope, "headers": headers}, receive, collect)
    if head is None:
        return
    if head["status"] == 200 and scope["method"] == "GET":
        if body and not body.endswith(b"\n"):
            body += b"\n"
        body += await measures(body)
        length = str(len(body)).encode()
        kept = [(name, value) for name, value in head["headers"] if name.lower() != b"content-length"]
        head = {**head, "headers": [*kept, (b"content-length", length)]}
    await send(head)
    await send({"type": "http.response.body", "body": body, "more_body": False})
