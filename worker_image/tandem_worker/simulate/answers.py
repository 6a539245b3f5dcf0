"""What clients are told: bodies and events as vLLM 0.32 writes them."""

import json
from typing import Any

# One word is one token. What is said does not matter; that each token has text does.
WORDS = (
    " the",
    " quick",
    " brown",
    " fox",
    " jumps",
    " over",
    " a",
    " lazy",
    " dog",
    " and",
    " then",
    " rests",
)


def text_of(first: int, count: int) -> str:
    """Text of `count` tokens from the `first` on."""
    return "".join(WORDS[index % len(WORDS)] for index in range(first, first + count))


def error(status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


class Voice:
    """Writes the answers of one request. `chat` chooses between the two APIs."""

    def __init__(self, *, chat: bool, request_id: str, created: int, model: str) -> None:
        self._chat = chat
        self._request_id = request_id
        self._created = created
        self._model = model
        # A stream's events differ in their text alone: the rest is written once.
        kind = "chat.completion.chunk" if chat else "text_completion"
        self._head = {"id": request_id, "object": kind, "created": created, "model": model}
        opening = json.dumps(self._head, separators=(",", ":"))[:-1]
        piece = '"delta":{"content":"' if chat else '"text":"'
        self._prefix = f'data: {opening},"choices":[{{"index":0,{piece}'.encode()
        self._suffix = (('"}' if chat else '"') + ',"logprobs":null,"finish_reason":').encode()

    def role(self) -> bytes | None:
        """The event before the first token, which a chat has."""
        if not self._chat:
            return None
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        return event({**self._head, "choices": [choice]})

    def piece(
        self, first: int, count: int, finish_reason: str | None, tokens: dict[str, int] | None = None
    ) -> bytes:
        """The event of some tokens; `tokens` is the usage so far, where the client wants it in each."""
        reason = b"null" if finish_reason is None else f'"{finish_reason}"'.encode()
        so_far = b"" if tokens is None else b',"usage":' + json.dumps(tokens, separators=(",", ":")).encode()
        return b"".join(
            (self._prefix, text_of(first, count).encode(), self._suffix, reason, b"}]", so_far, b"}\n\n")
        )

    def closing_usage(self, tokens: dict[str, int]) -> bytes:
        return event({**self._head, "choices": [], "usage": tokens})

    def whole(
        self,
        count: int,
        finish_reason: str,
        tokens: dict[str, int],
        kv_transfer_params: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        text = text_of(0, count)
        choice: dict[str, Any] = {
            "index": 0,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
        }
        if self._chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return {
            "id": self._request_id,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": self._created,
            "model": self._model,
            "choices": [choice],
            "usage": tokens,
            "kv_transfer_params": kv_transfer_params,
        }
