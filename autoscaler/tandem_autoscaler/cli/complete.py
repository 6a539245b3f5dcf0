"""`kubectl_complete-tandem`: what a shell may offer next.

kubectl's own completion, for bash, zsh, fish and PowerShell alike, runs a program of this name with the words typed so
far, and reads candidates line by line and a directive at the end
(https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/#shell-completion). So there is nothing to install
beside it, and whatever the parser knows is offered.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tandem_autoscaler.cli.flags import Completer, Parser


class Directive(IntEnum):
    """Cobra's ShellCompDirective, as far as we use it."""

    FILES = 0  # the shell's own completion, where there are no candidates
    NO_FILES = 4


@dataclass
class _Typed:
    """The words before the one that is completed."""

    parser: Parser
    waiting: argparse.Action | None = None  # an option that still wants its value
    names: int = 0  # positional words
    flags: dict[str, str] = field(default_factory=dict)


def offered(program: Parser, words: Sequence[str]) -> tuple[list[str], Directive]:
    """`words`: all after `kubectl tandem`; the last one is being typed, and may be empty."""
    *before, word = words or [""]
    typed = _read(program, before)
    if typed.waiting is not None:
        return _values(typed, typed.waiting, word)
    name, equals, value = word.partition("=")
    if equals and (action := _option(typed.parser, name)) is not None:
        found, directive = _values(typed, action, value)
        return [f"{name}={one}" for one in found], directive
    if word.startswith("-"):
        return [text for text in _options(typed) if text.startswith(word)], Directive.NO_FILES
    if typed.parser.commands:
        commands = [f"{name}\t{one.summary}" for name, one in typed.parser.commands.items()]
        return [text for text in commands if text.startswith(word)], Directive.NO_FILES
    places = [action for action in typed.parser.offered if not action.option_strings]
    if typed.names < len(places):
        return _values(typed, places[typed.names], word)
    return [], Directive.NO_FILES


def _read(program: Parser, words: Sequence[str]) -> _Typed:
    typed = _Typed(program)
    for word in words:
        if typed.waiting is not None:
            typed.flags[typed.waiting.dest] = word
            typed.waiting = None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            action = _option(typed.parser, name)
            if action is not None and equals:
                typed.flags[action.dest] = value
            elif action is not None and action.nargs != 0:
                typed.waiting = action
            elif action is not None:
                typed.flags[action.dest] = "true"
        elif word in typed.parser.commands:
            typed.parser = typed.parser.commands[word]
        else:
            typed.names += 1
    return typed


def _option(parser: Parser, name: str) -> argparse.Action | None:
    return next((action for action in parser.offered if name in action.option_strings), None)


def _options(typed: _Typed) -> Iterator[str]:
    """The long names of those that were not given yet."""
    for action in typed.parser.offered:
        if action.option_strings and action.dest not in typed.flags:
            yield f"{action.option_strings[-1]}\t{action.help or ''}".rstrip("\t")


def _values(typed: _Typed, action: argparse.Action, word: str) -> tuple[list[str], Directive]:
    completer: Completer | None = typed.parser.completers.get(action.dest)
    if completer is None:
        takes_file = "FILE" in str(action.metavar or "")
        return [], Directive.FILES if takes_file else Directive.NO_FILES
    # A list between commas goes on behind its last comma.
    head, comma, tail = word.rpartition(",") if "..." in str(action.metavar or "") else ("", "", word)
    return [
        f"{head}{comma}{one}" for one in completer(typed.flags) if one.startswith(tail)
    ], Directive.NO_FILES


def script() -> None:
    """The console script. A completion that fails offers nothing and says nothing: a user is typing."""
    from tandem_autoscaler.cli.main import parser

    try:
        found, directive = offered(parser(), sys.argv[1:])
    except Exception:
        found, directive = [], Directive.NO_FILES
    print("\n".join([*found, f":{int(directive)}"]))
