"""What the operator makes of a manifest's spec, for tests that read it word by word."""

from typing import Any

from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.engine_args import engine_args
from tandem_operator.observe.spec import read_spec


def typed(wish: dict[str, Any]) -> InferenceServiceSpec:
    """The spec; fails with the sentence of a refusal."""
    read, sentence = read_spec(wish)
    assert read is not None, sentence
    return read


def args(wish: dict[str, Any], role: str = "workers") -> list[str]:
    """The engine's command line."""
    read = typed(wish)
    return engine_args("chat", read, read.roles[role], shutdown_timeout_seconds=300)


def value(words: list[str], flag: str) -> str:
    """The word after `flag`, which stands there once."""
    assert words.count(flag) == 1
    return words[words.index(flag) + 1]
