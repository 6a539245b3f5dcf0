"""The pictures of the web page and of the terminal: `.venv/bin/python -m docs.pictures.make` (Debian package chromium).

Half an hour of simulated fleets, sized by the autoscaler's own loop; nothing in them is invented.
"""

import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from docs.pictures import terminal
from tests.dashboard.chromium import launched
from tests.dashboard.fleets import GPU_BUDGET, MINUTES, fleets
from tests.dashboard.served import Served, served

SIZES = {"wide": (1280, 900), "narrow": (390, 844)}


def main(folder: Path) -> None:
    world = fleets()
    with (
        sync_playwright() as playwright,
        launched(playwright) as browser,
        served(world, gpu_budget=GPU_BUDGET) as at,
    ):
        at.run(60.0 * MINUTES)
        for colours in ("light", "dark"):
            for size in SIZES:
                print(_picture(browser, at, folder, size, colours))
        for path in terminal.pictures(browser, folder, world):
            _shrink(path)
            print(path)


def _picture(browser: Browser, at: Served, folder: Path, size: str, colours: str) -> Path:
    width, height = SIZES[size]
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=colours, timezone_id="UTC", locale="en-GB"
    )  # type: ignore[arg-type]
    path = folder / f"dashboard-{size}-{colours}.png"
    page.goto(f"{at.url}#/prod/chat")
    page.get_by_role("heading", name="prod / chat").wait_for()
    page.screenshot(path=path, full_page=True)
    page.close()
    _shrink(path)
    return path


def _shrink(path: Path) -> None:
    """256 colours are enough for a page of few, and a third of the bytes."""
    with Image.open(path) as picture:
        picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
