"""Flags that several commands have, the values that they take, and a parser whose mistakes are one line.

Each is defined once, so that the same flag means the same everywhere. What a shell may offer for a value stands beside
it (`completes`), and complete.py asks for it.
"""

import argparse
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from tandem_api.durations import parse_seconds

OUTPUTS: Final = ("table", "json", "yaml")
Completer = Callable[[Mapping[str, str]], Iterable[str]]
"""(what other flags were given, by their destination) -> what may stand here. May ask a cluster; may raise."""


class Parser(argparse.ArgumentParser):
    """argparse, with one line for a mistake, and open to whoever completes commands."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.offered: list[argparse.Action] = []
        self.completers: dict[str, Completer] = {}
        self.commands: dict[str, Parser] = {}
        self.summary = ""
        super().__init__(*arguments, **{"allow_abbrev": False, **options})

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """As argparse has it."""
        action = super().add_argument(*names, **options)
        self.offered.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        """One line, with what may have been meant, and exit status 2."""
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        if wrong is not None and self.commands:
            message = f"there is no command {wrong[1]}{meant(wrong[1], self.commands)}"
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` tells more)\n")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The flags; what is not known is a mistake, with what may have been meant."""
        given, unknown = self.parse_known_args(arguments)
        if unknown:
            parser: Parser = given.parser
            name = unknown[0].partition("=")[0]
            known = [option for action in parser.offered for option in action.option_strings]
            parser.error(
                f"there is no flag {name}{meant(name, known)}"
                if name.startswith("-")
                else f"{unknown[0]} is one name too many"
            )
        return given


Commands = argparse._SubParsersAction


def command(
    commands: "Commands[Parser]", word: str, *, summary: str, description: str,
    run: Callable[[argparse.Namespace], int], examples: str | None = None, **defaults: Any,
) -> Parser:  # fmt: skip
    """A new subcommand. `run` gives the exit status and raises Mistake."""
    made = commands.add_parser(
        word,
        help=summary,
        description=description,
        epilog=None if examples is None else f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter if examples else argparse.HelpFormatter,
    )
    made.summary = summary
    made.set_defaults(run=run, parser=made, asks_cluster=False, **defaults)
    return made


def output(flags: Parser) -> None:
    """`-o`, for every command that tells something."""
    action = flags.add_argument(
        "-o", "--output", type=one_of(OUTPUTS), default="table", metavar="|".join(OUTPUTS),
        help="json and yaml are for programs (default table)",
    )  # fmt: skip
    completes(flags, action, lambda _: OUTPUTS)


def choice(flags: Parser, name: str, words: Sequence[str], *, help: str) -> None:
    """An option that takes one of a few words."""
    action = flags.add_argument(name, type=one_of(words), metavar="|".join(words), help=help)
    completes(flags, action, lambda _: words)


def manifest(flags: Parser, *, required: bool) -> None:
    """`-f`: an InferenceService in a file."""
    flags.add_argument(
        "-f", "--filename", required=required, metavar="FILE", help="an InferenceService; - is stdin"
    )


def completes(flags: Parser, action: argparse.Action, completer: Completer) -> None:
    """A shell offers what `completer` gives for the action's value."""
    flags.completers[action.dest] = completer


# --- values: argparse turns the ArgumentTypeError's sentence into the mistake's ----------------------------
def duration(most_seconds: float, most: str) -> Callable[[str], float]:
    """`30s`, `2m`, or a plain number of seconds; above 0, and `most` (in words) at most."""

    def seconds(text: str) -> float:
        try:
            value = float(text) if _is_number(text) else parse_seconds(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not 0 < value <= most_seconds:
            raise argparse.ArgumentTypeError(f"{text} is not between 0 and {most}")
        return value

    return seconds


def whole(most: int) -> Callable[[str], int]:
    """A whole number above zero; `4k` and `128K` are multiples of 1,024, as context lengths are told."""

    def number(text: str) -> int:
        factor = 1024 if text.lower().endswith("k") else 1
        digits = text[:-1] if factor > 1 else text
        if not digits.isdecimal() or not 0 < int(digits) * factor <= most:
            raise argparse.ArgumentTypeError(f"{text} is no whole number above 0, {most:,} at most")
        return int(digits) * factor

    return number


def factor(most: float, what: str = "factor") -> Callable[[str], float]:
    """A number above zero."""

    def value(text: str) -> float:
        if not _is_number(text) or not 0 < float(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is no {what} above 0, {most:g} at most")
        return float(text)

    return value


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """One of a few words."""

    def word(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(names)}{meant(text, names)}")
        return text

    return word


def some_of(text: str) -> tuple[str, ...]:
    """Words between commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def meant(wrong: str, names: Iterable[str]) -> str:
    """`; did you mean X?` where a name is near enough to a wrong one, else nothing."""
    near = difflib.get_close_matches(wrong, list(names), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
