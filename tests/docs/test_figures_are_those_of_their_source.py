"""The concepts page quotes figures: from the page that it links to, or from a command that anyone can run."""

import contextlib
import io
import re

import pytest

from tandem_autoscaler.cli.main import main as kubectl_tandem
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "prefill-and-decode.md").read_text()
PARAGRAPHS = [
    part for part in PAGE.split("\n\n") if re.search(r"\]\(([\w-]+\.md)", part) and re.search(r"\d\.\d", part)
]


@pytest.mark.parametrize("paragraph", PARAGRAPHS, ids=lambda text: text[:30])
def test_a_figure_stands_on_the_page_that_is_linked(paragraph: str) -> None:
    linked = "".join(
        (ROOT / "docs" / name).read_text() for name in re.findall(r"\]\(([\w-]+\.md)", paragraph)
    )
    assert [figure for figure in re.findall(r"\d+\.\d+", paragraph) if figure not in linked] == []


def test_two_pages_are_quoted() -> None:
    quoted = {name for paragraph in PARAGRAPHS for name in re.findall(r"\]\(([\w-]+\.md)", paragraph)}
    assert {"benchmarks.md", "late-demotion.md"} <= quoted


@pytest.mark.parametrize(("gpu", "column"), [("H100", 2), ("H20", 3)])
def test_the_table_is_what_the_command_says(gpu: str, column: int) -> None:
    printed = io.StringIO()
    words = ["size", "--model", "llama-3.1-8b", "--gpu", gpu, "--concurrency", "64", "--context", "2k"]
    with contextlib.redirect_stdout(printed):
        assert kubectl_tandem(words) == 0
    said = printed.getvalue()
    rows = [[cell.strip() for cell in line.split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
    cells = [
        row[column] for row in rows if len(row) == 5 and row[1].startswith(("prefill", "decode", "one step"))
    ]
    assert len(cells) == 4
    for cell in cells:
        for figure in re.findall(r"\d+(?:,\d+)?(?:\.\d+)?", cell):
            # The page has one digit after the point, the command three in all.
            assert re.search(rf"\b{figure}", said) or any(
                f"{float(exact):.1f}" == figure for exact in re.findall(r"\d+\.\d+", said)
            ), f"{gpu}: {figure} is not in\n{said}"
        for bound in re.findall(r"bound by ([\w/]+)", cell):
            assert bound in said
