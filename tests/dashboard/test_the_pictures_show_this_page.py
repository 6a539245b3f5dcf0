"""docs/pictures holds what `python -m docs.pictures.make` makes: none missing, none large, each on a page."""

import struct
from pathlib import Path

import pytest

from docs.pictures.make import SIZES
from docs.pictures.terminal import COMMANDS

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_each_picture_is_there_and_as_wide_as_its_screen(size: str, colours: str) -> None:
    data = (PICTURES / f"dashboard-{size}-{colours}.png").read_bytes()
    (width,) = struct.unpack(">I", data[16:20])
    assert width == SIZES[size][0] and len(data) < 250_000
    assert f"dashboard-{size}-{colours}.png" in (PICTURES.parent / "dashboard.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_picture(name: str) -> None:
    assert len((PICTURES / f"{name}.png").read_bytes()) < 250_000
    assert any(f"pictures/{name}.png" in page.read_text() for page in PICTURES.parent.glob("*.md"))
