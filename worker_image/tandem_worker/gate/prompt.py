"""What a request's body says of its prompt. The gate does not tokenise: text is measured in bytes."""

import json
from dataclasses import dataclass
from typing import Any

# The fields of the APIs that serve generated text in which a prompt can lie.
_PROMPT_FIELDS = ("prompt", "messages", "input", "system", "instructions")
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# Words that no template writes into the prompt, and media, whose tokens have nothing to do with their bytes.
_NO_TEXT = frozenset({"type", "role", "id", "tool_call_id"})
_MEDIA = frozenset(
    {"image_url", "image", "input_image", "input_audio", "audio_url", "audio", "video_url", "video", "file"}
)
# A chat template writes about four tokens around each message.
_BYTES_PER_MESSAGE = 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """Length and circumstances of one request's prompt."""

    text_bytes: int  # UTF-8, the template's share included
    token_ids: int = 0  # tokens given as ids
    has_media: bool = False  # images and the like are in it: its bytes do not tell its tokens
    streams: bool = False
    one_token: bool = False  # the answer is the first token (the prefill leg of a disaggregated request)
    kv_elsewhere: bool = False  # computed by another worker; nothing of it is to be computed here


def read_prompt(body: bytes) -> Prompt | None:
    """The prompt in a JSON body; None when there is none that could be read."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    ruler = _Ruler()
    for name in _PROMPT_FIELDS:
        ruler.measure(data.get(name))
    messages = data.get("messages")
    if isinstance(messages, list):
        ruler.text_bytes += _BYTES_PER_MESSAGE * len(messages)
    if data.get("tools"):
        ruler.text_bytes += len(json.dumps(data["tools"]))  # templates print the schema as it is
    if not ruler.text_bytes and not ruler.token_ids:
        return None
    transfer = data.get("kv_transfer_params")
    return Prompt(
        text_bytes=ruler.text_bytes,
        token_ids=ruler.token_ids,
        has_media=ruler.has_media,
        streams=data.get("stream") is True,
        one_token=any(data.get(name) == 1 for name in _LIMIT_FIELDS),
        kv_elsewhere=isinstance(transfer, dict) and transfer.get("do_remote_prefill") is True,
    )


class _Ruler:
    """Adds up the text in nested JSON."""

    def __init__(self) -> None:
        self.text_bytes = 0
        self.token_ids = 0
        self.has_media = False

    def measure(self, value: Any) -> None:
        if isinstance(value, str):
            self.text_bytes += len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
        elif isinstance(value, list):
            if value and type(value[0]) is int:
                self.token_ids += len(value)
            else:
                for item in value:
                    self.measure(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key in _MEDIA:
                    self.has_media = True
                elif key not in _NO_TEXT:
                    self.measure(item)
