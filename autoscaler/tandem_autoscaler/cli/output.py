"""What goes to the screen: a document for programs, or rich text for people."""

import json
import os
import sys
from typing import Any

import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def print_document(document: Any, form: str) -> None:
    """`form` is json or yaml."""
    if form == "json":
        print(json.dumps(document, indent=2))
    else:
        print(yaml.safe_dump(document, sort_keys=False, width=100), end="")


# A pipe has no width: lines that someone greps are not broken.
_PIPE_COLUMNS = 1000


def console() -> Console:
    """Of standard output; made anew, so that a test's capture is seen."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(file=sys.stdout, highlight=False, width=_PIPE_COLUMNS if piped else None)


def table(*columns: str, left: int = 1) -> Table:
    """Without lines between rows; the first `left` columns hold words, the others numbers."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number < left else "right", no_wrap=number < left)
    return made


def gigabytes(size_bytes: float) -> str:
    """Decimal, as vendors count."""
    return f"{size_bytes / 1e9:,.1f}"
