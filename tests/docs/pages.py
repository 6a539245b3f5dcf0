"""The documentation as data: its pages, the blocks of code in them, and the manifests that it and examples/ show."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
EXAMPLES = tuple(sorted((ROOT / "examples").rglob("*.yaml")))
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page; `line` is where it begins."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Manifest:
    """One YAML document and where it stands."""

    place: str
    content: dict[str, Any]

    def __str__(self) -> str:
        return self.place


def blocks(*languages: str) -> list[Block]:
    """All blocks of these languages, in the order of the pages."""
    return [block for page in PAGES for block in _blocks(page) if block.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        inside = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.M)
        yield Block(page, text[: found.start()].count("\n") + 1, found["language"], inside)


def manifests() -> list[Manifest]:
    """Every Kubernetes object in examples/ and in the pages' YAML blocks."""
    found = []
    for path in EXAMPLES:
        found += _documents(str(path.relative_to(ROOT)), path.read_text())
    for block in blocks("yaml"):
        found += _documents(str(block), block.text)
    return [manifest for manifest in found if "kind" in manifest.content]


def fragments() -> list[Manifest]:
    """YAML blocks of the pages that show a part of an InferenceService: they begin at `spec`."""
    found = [each for block in blocks("yaml") for each in _documents(str(block), block.text)]
    return [each for each in found if "kind" not in each.content and set(each.content) == {"spec"}]


def _documents(place: str, text: str) -> list[Manifest]:
    parts = [part for part in yaml.safe_load_all(text) if isinstance(part, dict)]
    return [
        Manifest(f"{place}[{number}]" if len(parts) > 1 else place, part) for number, part in enumerate(parts)
    ]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text())


def code_spans(page: Path) -> list[str]:
    """What stands between backticks in the prose."""
    return re.findall(r"`([^`\n]+)`", prose(page))
