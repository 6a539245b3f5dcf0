"""Server-sent events, read as they pass: is there content in it, has it ended, how many tokens."""

import re

# A quote inside a JSON string is escaped, so generated text can never look like one of these keys.
_CONTENT = re.compile(
    rb'"(?:text|content|reasoning_content|reasoning|arguments|delta|thinking|partial_json)":\s?"(?!")'
)
_FINISH = re.compile(rb'"finish_reason":\s?"(\w+)"')
_COMPLETION_TOKENS = re.compile(rb'"(?:completion_tokens|output_tokens)":\s?(\d+)')
_PROMPT_TOKENS = re.compile(rb'"(?:prompt_tokens|input_tokens)":\s?(\d+)')
_ERROR = re.compile(rb'data:\s?\{"error":')


def content_key(event: bytes) -> bytes | None:
    """The key (with the quote that opens its value) under which `event` has generated text; None for none."""
    match = _CONTENT.search(event)
    return match.group() if match else None


def finish_reason(event: bytes) -> bytes | None:
    """The reason in `event`, abort before any other (an answer of several choices)."""
    reasons = _FINISH.findall(event)
    if not reasons:
        return None
    return b"abort" if b"abort" in reasons else reasons[0]


def completion_tokens(piece: bytes) -> int | None:
    """The number of generated tokens by the usage in `piece`, the last one where there are several."""
    found = _COMPLETION_TOKENS.findall(piece)
    return int(found[-1]) if found else None


def prompt_tokens(piece: bytes) -> int | None:
    """The length of the prompt by the usage in `piece`; None where it has none (or a 0 that is still to be told)."""
    found = _PROMPT_TOKENS.findall(piece)
    return (int(found[-1]) or None) if found else None


def is_error(event: bytes) -> bool:
    return _ERROR.match(event) is not None


def says_done(event: bytes) -> bool:
    """OpenAI's last event of a stream."""
    return event.startswith(b"data: [DONE]")


def split_events(data: bytes) -> tuple[list[bytes], bytes]:
    """The complete events in `data`, each with its blank line, and the incomplete rest."""
    events: list[bytes] = []
    start = 0
    while True:
        end, width = data.find(b"\n\n", start), 2
        carriage = data.find(b"\r\n\r\n", start)
        if carriage != -1 and (end == -1 or carriage < end):
            end, width = carriage, 4
        if end == -1:
            return events, data[start:]
        events.append(data[start : end + width])
        start = end + width
