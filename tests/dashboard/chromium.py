"""The machine's own Chromium, headless. Playwright drives it and brings no browser of its own."""

import contextlib
import os
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found() -> str | None:
    """The path of the browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


@contextlib.contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    """Raises FileNotFoundError where there is no Chromium."""
    path = found()
    if path is None:
        raise FileNotFoundError("Chromium is not installed: apt-get install chromium")
    # The browser's sandbox needs a user other than root; in CI we are root.
    sandbox = os.geteuid() != 0
    browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=sandbox)
    try:
        yield browser
    finally:
        browser.close()
