"""What a client is told when its request does not get an answer: OpenAI-style errors, whole or within a stream."""

import json
from dataclasses import dataclass

from tandem_worker.gate.asgi import Message


@dataclass(frozen=True)
class Refusal:
    """A status, the reason in words and when to try again."""

    status: int
    message: str
    kind: str
    retry_after_seconds: int | None = 1

    def payload(self) -> bytes:
        """The error object as vLLM and OpenAI write it."""
        error = {"message": self.message, "type": self.kind, "param": None, "code": self.status}
        return json.dumps({"error": error}, separators=(",", ":")).encode()

    def messages(self) -> list[Message]:
        """A whole HTTP response."""
        body = self.payload()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if self.retry_after_seconds is not None:
            headers.append((b"retry-after", str(self.retry_after_seconds).encode()))
        return [
            {"type": "http.response.start", "status": self.status, "headers": headers},
            {"type": "http.response.body", "body": body, "more_body": False},
        ]

    def event(self) -> bytes:
        """The end of a stream that has begun: an error event, then the end that clients wait for."""
        return b"data: " + self.payload() + b"\n\ndata: [DONE]\n\n"


CLOSING = Refusal(503, "This worker is shutting down; send the request again.", "service_unavailable")
ASLEEP = Refusal(503, "The engine of this worker sleeps.", "service_unavailable")
CUT_AT_DEADLINE = Refusal(
    503,
    "This worker shut down before the answer was complete; send the request again.",
    "service_unavailable",
)
ABORTED = Refusal(503, "The engine aborted this request before the answer was complete.", "aborted")
ENDED_WITHOUT_END = Refusal(502, "The engine ended the answer without a finish.", "bad_gateway")
EMPTY_ANSWER = Refusal(502, "The engine answered with nothing.", "bad_gateway")
