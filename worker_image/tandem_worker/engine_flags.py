"""The engine's command line, read but not changed: which model, and the few flags the worker itself needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tandem_worker.exits import UserMistake

_SHORT = {
    "-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-q": "quantization", "-n": "nnodes",
    "-r": "node-rank",
}  # fmt: skip
# vLLM's human-readable integers: lower case is decimal, upper case is binary.
_SUFFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class EngineFlags:
    """`argv` as given (model included) and the flags by name, without dashes, the last one winning.

    `--a-b v`, `--a-b=v` and `--a_b v` are the same flag. A flag without a value maps to "".
    """

    argv: tuple[str, ...]
    model: str | None
    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, argv: Sequence[str]) -> "EngineFlags":
        """Read a `vllm serve` command line. The model is the first word, or `--model`."""
        words = list(argv)
        model = words[0] if words and not words[0].startswith("-") else None
        values: dict[str, str] = {}
        index = 0 if model is None else 1
        while index < len(words):
            word = words[index]
            index += 1
            short, *short_value = word.split("=", 1)
            if short in _SHORT:
                word = "=".join(["--" + _SHORT[short], *short_value])
            if not word.startswith("--"):
                continue
            name, equals, value = word[2:].partition("=")
            if not equals and index < len(words) and not words[index].startswith("--"):
                value = words[index]
                index += 1
            name = name.replace("_", "-")
            values.pop(name, None)  # the order of `values` is that of the last mentions
            values[name] = value
        return cls(tuple(words), model or values.get("model") or None, values)

    @property
    def headless(self) -> bool:
        """One of several nodes that only computes: no HTTP server, so nothing for a gate to stand before."""
        return self.switch("headless", False)

    def has(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str) -> str:
        return self.values.get(name) or default

    def switch(self, name: str, default: bool) -> bool:
        """A boolean pair `--name` / `--no-name`; the last one on the line wins."""
        for flag in reversed(self.values):
            if flag == name:
                return self.values[flag].lower() not in ("false", "0")
            if flag == f"no-{name}":
                return False
        return default

    def integer(self, name: str, default: int | None = None) -> int | None:
        """A whole number, also as vLLM writes it (16k, 16K, 1.5k).

        Raises:
            UserMistake: the value is no number.
        """
        value = self.values.get(name)
        if value is None:
            return default
        scale = _SUFFIX.get(value[-1:], 1)
        digits = value[:-1] if scale != 1 else value
        try:
            return int(digits) * scale if scale == 1 else int(float(digits) * scale)
        except ValueError:
            raise UserMistake(f"--{name}: {value!r} is not a whole number") from None

    def number(self, name: str, default: float) -> float:
        """A decimal number.

        Raises:
            UserMistake: the value is no number.
        """
        value = self.values.get(name)
        if value is None:
            return default
        try:
            return float(value)
        except ValueError:
            raise UserMistake(f"--{name}: {value!r} is not a number") from None
