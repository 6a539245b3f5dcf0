"""A user's own trace: `kubectl tandem replay --trace requests.csv`."""

import csv
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tandem_autoscaler.simulator.trace import Trace

# Usual names of the three columns, in lower case and without anything but letters: Azure's, Mooncake's, BurstGPT's.
_TIME = {"timestamp", "time", "arrival", "arrivaltime", "arrived", "arrivedat", "start", "starttime", "t"}
_PROMPT = {
    "prompt", "prompttokens", "input", "inputtokens", "inputlength", "inputlen", "isl", "context", "contexttokens",
    "promptlength", "promptlen", "numprefilltokens", "requesttokens",
}  # fmt: skip
_OUTPUT = {
    "output", "outputtokens", "outputlength", "outputlen", "osl", "generated", "generatedtokens", "completiontokens",
    "generationtokens", "numdecodetokens", "responsetokens",
}  # fmt: skip
_MILLISECONDS = {"ms", "msec", "millis", "milliseconds"}
_SECONDS = {"s", "sec", "secs", "seconds"}
# A column `timestamp` of numbers says no unit. Whole numbers from here on are epoch times in milliseconds: as
# seconds they would lie beyond the year 5000.
_EPOCH_MILLISECONDS = 1e11


def from_csv(path: Path | str) -> Trace:
    """Requests from a CSV file with a header, in any order of columns and rows.

    The time is in seconds, in milliseconds where the column's name ends in `ms` (or where it can only be an epoch in
    milliseconds), or ISO 8601 (Azure's seven digits too; without a zone: UTC). The trace starts at its first request.

    Raises:
        ValueError: one sentence with the file, and the line where there is one.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _read(path.name, file.read().splitlines())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is no text in UTF-8") from None


def _read(name: str, lines: list[str]) -> Trace:
    reader = csv.reader(lines)
    header = next(reader, None)
    if header is None:
        raise ValueError(f"{name}: the file is empty")
    time, milliseconds = _time_column(name, header)
    prompt, output = _column(name, header, _PROMPT, "prompt"), _column(name, header, _OUTPUT, "output")
    rows: list[tuple[float, float, float]] = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) < len(header):
                raise _Bad(f"has {len(row)} of {len(header)} columns")
            rows.append((_time(row[time]), _tokens(row[prompt], "prompt"), _tokens(row[output], "output")))
    except (_Bad, csv.Error) as error:
        raise ValueError(f"{name}, line {reader.line_num}: {error}") from None
    if not rows:
        raise ValueError(f"{name}: there is a header, but no request")
    table = np.array(rows, dtype=np.float64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    at = table[:, 0]
    if milliseconds or (milliseconds is None and at[0] >= _EPOCH_MILLISECONDS):
        at = at / 1000.0
    at = at - at[0]
    # The last request belongs to the trace, which ends one mean gap after it.
    end = float(at[-1]) + max(1.0, float(at[-1]) / len(at))
    return Trace(name.removesuffix(".csv"), at, table[:, 1], np.maximum(1.0, table[:, 2]), end)


class _Bad(ValueError):
    """What is wrong with one line."""


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalpha())


def _time_column(name: str, header: list[str]) -> tuple[int, bool | None]:
    """Where the time is, and whether it is in milliseconds (None: the name does not say)."""
    for index, column in enumerate(header):
        letters = _letters(column)
        for ending, milliseconds in [(e, True) for e in _MILLISECONDS] + [(e, False) for e in _SECONDS]:
            if letters.endswith(ending) and letters.removesuffix(ending) in _TIME:
                return index, milliseconds
    return _column(name, header, _TIME, "time"), None


def _column(name: str, header: list[str], names: set[str], what: str) -> int:
    found = [index for index, column in enumerate(header) if _letters(column) in names]
    if not found:
        known = {"time": "timestamp", "prompt": "prompt_tokens", "output": "output_tokens"}[what]
        raise ValueError(f"{name}: no column of {what}s among {', '.join(header)}; name it {known}")
    return found[0]


def _time(text: str) -> float:
    text = text.strip()
    try:
        return _finite(text, float)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(_microseconds(text))
    except ValueError:
        raise _Bad(f"{text!r} is no time; seconds, milliseconds or ISO 8601 are") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _microseconds(text: str) -> str:
    """Python reads at most six digits after the point; a seventh (Azure) is dropped."""
    head, point, tail = text.partition(".")
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return head + point + tail[:digits][:6] + tail[digits:]


def _tokens(text: str, what: str) -> float:
    try:
        tokens = _finite(text, float)
    except ValueError:
        raise _Bad(f"{text.strip()!r} is no number of {what} tokens") from None
    if tokens < (1 if what == "prompt" else 0):
        raise _Bad(f"{text.strip()} {what} tokens are too few")
    return tokens


def _finite(text: str, read: Callable[[str], float]) -> float:
    value = read(text)
    if not abs(value) < float("inf"):
        raise ValueError
    return value
