"""What a client may ask, as far as it matters here: fields unknown to us are let pass, as vLLM does."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class StreamOptions(BaseModel):
    """`stream_options` of OpenAI's API."""

    model_config = ConfigDict(extra="allow")
    include_usage: bool = False
    continuous_usage_stats: bool = False


class Ask(BaseModel):
    """What completions and chats have in common."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    min_tokens: int = Field(default=0, ge=0)
    ignore_eos: bool = False
    n: Literal[1] | None = 1  # several choices are not simulated, and are refused rather than left out
    seed: int | None = None
    kv_transfer_params: dict[str, Any] | None = None
    # SGLang's router tells both legs where they meet, and under which number.
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: int | None = None

    def limit(self) -> int | None:
        """The most tokens to generate; None where the client sets none."""
        return self.max_tokens


class CompletionAsk(Ask):
    """POST /v1/completions. A prompt is text or token ids, alone or in a list of one."""

    prompt: str | list[int] | list[str] | list[list[int]]

    def limit(self) -> int | None:
        return 16 if self.max_tokens is None else self.max_tokens  # OpenAI's default


class ChatMessage(BaseModel):
    """One message; content may be text or parts."""

    model_config = ConfigDict(extra="allow")
    role: str
    content: str | list[dict[str, Any]] | None = None


class ChatAsk(Ask):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    def limit(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


def prompt_length_tokens(ask: CompletionAsk | ChatAsk, characters_per_token: float) -> int:
    """Tokens of the prompt: counted where ids are given, estimated from the characters of a text.

    Raises:
        ValueError: a batch of prompts, or no prompt at all.
    """
    if isinstance(ask, ChatAsk):
        characters = 0
        for message in ask.messages:
            characters += len(message.role) + 2  # the template's own words
            if isinstance(message.content, str):
                characters += len(message.content)
            else:
                characters += sum(len(str(part.get("text", ""))) for part in message.content or [])
        return max(1, round(characters / characters_per_token))
    prompt = ask.prompt
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        if len(prompt) > 1:
            raise ValueError("a batch of prompts is not simulated; send one prompt per request")
        prompt = prompt[0]
    if not prompt:
        raise ValueError("the prompt is empty")
    return len(prompt) if isinstance(prompt, list) else max(1, round(len(str(prompt)) / characters_per_token))
