"""The constants of one device and model, from a JSON file."""

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from tandem_worker.exits import UserMistake

FOLDER = Path(__file__).parent / "profiles"


@dataclass(frozen=True)
class Profile:
    """A step of `p` prefill tokens (each with `c` tokens before it), `B` decoding sequences and `K` tokens of
    KV cache that they read takes

        step_seconds + p * prefill_token_seconds + p * c * prefill_context_seconds
                     + B * decode_sequence_seconds + K * kv_token_seconds

    (tau = w0 + alpha p + kappa K, with the attention of long prompts and the cost of a sequence apart.)
    Each request spends `request_seconds` outside the steps (HTTP, tokenizer, scheduling).
    """

    name: str
    source: str
    step_seconds: float
    prefill_token_seconds: float
    prefill_context_seconds: float
    decode_sequence_seconds: float
    kv_token_seconds: float
    request_seconds: float
    kv_cache_tokens: int
    kv_bytes_per_token: int
    transfer_bytes_per_second: float
    transfer_seconds: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    mean_output_tokens: float = 200.0  # of a chat that sets no limit
    characters_per_token: float = 4.0

    def step_time_seconds(
        self, *, prefill_tokens: int, prefill_context: int, decode_sequences: int, kv_tokens: int
    ) -> float:
        """`prefill_context` is the sum of p * c over the prompts of the step, `kv_tokens` is K."""
        return (
            self.step_seconds
            + prefill_tokens * self.prefill_token_seconds
            + prefill_context * self.prefill_context_seconds
            + decode_sequences * self.decode_sequence_seconds
            + kv_tokens * self.kv_token_seconds
        )


def built_in() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> Profile:
    """A built-in profile by name, or any by path.

    Raises:
        UserMistake: there is none, or a field is missing, unknown or no number that makes sense.
    """
    path = FOLDER / f"{name}.json" if name in built_in() else Path(name)
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserMistake(
            f"no profile {name!r}; built in are {', '.join(built_in())}, or give a path"
        ) from None
    except (OSError, ValueError) as error:
        raise UserMistake(f"profile {name}: {error}") from None
    if not isinstance(data, dict):
        raise UserMistake(f"profile {name}: not a JSON object")
    return _checked(data, name)


def _checked(data: dict[str, Any], name: str) -> Profile:
    known = {field.name: field for field in fields(Profile)}
    if unknown := sorted(set(data) - set(known)):
        raise UserMistake(f"profile {name}: unknown field {unknown[0]!r}")
    values: dict[str, Any] = {}
    for key, field in known.items():
        if key not in data:
            if field.default is MISSING:
                raise UserMistake(f"profile {name}: field {key!r} is missing")
            continue
        value = data[key]
        if field.type is str or field.type == "str":
            good = isinstance(value, str)
        elif field.type is int or field.type == "int":
            good = isinstance(value, int) and not isinstance(value, bool) and value > 0
        else:
            good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
            if key in (
                "step_seconds",
                "transfer_bytes_per_second",
                "characters_per_token",
                "mean_output_tokens",
            ):
                good = good and value > 0
        if not good:
            raise UserMistake(f"profile {name}: {key} may not be {value!r}")
        values[key] = value
    return Profile(**values)
