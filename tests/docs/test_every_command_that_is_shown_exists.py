"""`make x`, `kubectl tandem x --flag`, `python -m x` and paths of files, as the documentation names them."""

import contextlib
import importlib.util
import io
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from tandem_autoscaler.cli.main import main as kubectl_tandem
from tests.docs.pages import PAGES, ROOT, Block, blocks, code_spans

SHELL = ("", "bash", "sh", "console")


def commands() -> list[tuple[str, str]]:
    """(place, command line) of each line of a shell block and of each code span; continued lines are joined."""
    found = []
    for block in blocks(*SHELL):
        found += [(str(block), line) for line in _lines(block)]
    for page in PAGES:
        found += [(str(page.relative_to(ROOT)), span) for span in code_spans(page)]
    return found


def _lines(block: Block) -> list[str]:
    joined = block.text.replace("\\\n", " ")
    return [line.split(" #")[0].strip() for line in joined.splitlines()]


def _named(pattern: str) -> set[str]:
    return {name for _, line in commands() for name in re.findall(pattern, line)}


@cache
def help_of(command: str) -> str:
    """What `kubectl tandem COMMAND --help` prints; empty where there is no such command."""
    printed = io.StringIO()
    quiet = contextlib.redirect_stderr(io.StringIO())
    with contextlib.redirect_stdout(printed), quiet, pytest.raises(SystemExit) as ended:
        kubectl_tandem([command, "--help"])
    return printed.getvalue() if ended.value.code == 0 else ""


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = _named(r"^make ([a-z0-9-]+)")
    assert named, "the pages name none at all: the pattern is wrong"
    assert named - targets == set()


def test_subcommands_and_their_flags_exist() -> None:
    seen = set()
    for place, line in commands():
        found = re.match(r"kubectl tandem ([a-z]+)(?!\S)(.*)", line)
        if not found or (found[1] in seen and "--" not in found[2]):
            continue
        seen.add(found[1])
        text = help_of(found[1])
        assert text, f"{place}: kubectl tandem {found[1]} is no command"
        flags = {word.split("=")[0] for word in _words(found[2]) if word.startswith("--")}
        assert {flag for flag in flags if flag not in text} == set(), f"{place}: {line}"
    assert {"status", "explain", "diagnose", "size", "replay"} <= seen


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


@pytest.mark.parametrize("module", sorted(_named(r"python -m ((?:tandem_|e2e|tests)[a-z_.]*)")))
def test_modules_exist(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_exist(page: Path) -> None:
    """Paths of the repository, wherever they are named; tables of tests name them from tests/ on."""
    named = re.findall(
        r"(?<![\w/.-])((?:examples|helm|e2e|tests|crds|operator|autoscaler|worker_image|docs)/[\w./-]+\w)",
        page.read_text(),
    )
    places = (ROOT, ROOT / "tests")
    assert [
        path for path in named if "..." not in path and not any((place / path).exists() for place in places)
    ] == []
