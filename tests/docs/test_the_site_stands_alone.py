"""`make docs`: every page is in the navigation, every link leads somewhere, and reading needs no network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT

# What a browser fetches by itself; links that a reader may follow are another matter.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(https?:)?//|"""
    r"""<link\b(?=[^>]*rel=["']?(?:stylesheet|icon|preload|preconnect))[^>]*href=["']?(https?:)?//""",
    re.I,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` builds it, into a folder of the test."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = [page.name for page in site.rglob("*.html") if _FETCHED.search(page.read_text())]
    assert fetched == []
    sheets = [
        sheet.name for sheet in site.rglob("*.css") if re.search(r"url\(['\"]?https?:", sheet.read_text())
    ]
    assert sheets == []


def test_what_is_fetched_would_be_found() -> None:
    assert _FETCHED.search('<script async src="https://cdn.example/x.js">')
    assert _FETCHED.search('<link rel="stylesheet" href="https://fonts.example/css">')
    assert not _FETCHED.search('<a href="https://example.com">')


def test_the_search_index_has_the_fields_of_the_api(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    assert "longPromptThreshold" in index and "GPUBudgetExceeded" in index


def test_warnings_are_errors() -> None:
    """`--strict` fails on warnings only, so what matters has to be one."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    levels = {level for group in settings["validation"].values() for level in group.values()}
    assert levels == {"warn"}
    assert settings["theme"]["font"] is False
