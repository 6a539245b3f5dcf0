"""One headless Chromium, and half an hour of simulated fleets behind a running server."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.dashboard import chromium
from tests.dashboard.fleets import GPU_BUDGET, fleets
from tests.dashboard.served import Served, served

# Of what the page is expected to come to, on a machine that does other things too.
expect.set_options(timeout=30_000)
# The load of prod/chat grows fourfold within it.
SIMULATED_SECONDS = 1500.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the session: while it is open, no asynchronous test can run in this thread."""
    if chromium.found() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright, chromium.launched(playwright) as launched:
        yield launched


@pytest.fixture(scope="module")
def at() -> Iterator[Served]:
    """Sized by the loop itself. Tests look, and leave it as it is."""
    with served(fleets(), gpu_budget=GPU_BUDGET) as running:
        running.run(SIMULATED_SECONDS)
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """1280 by 900, light, UTC; a fault on the page's console fails the test."""
    faults: list[str] = []
    made = browser.new_page(
        viewport={"width": 1280, "height": 900}, color_scheme="light", timezone_id="UTC", locale="en-GB"
    )
    made.set_default_timeout(30_000)
    made.on("pageerror", lambda error: faults.append(str(error)))
    made.on("console", lambda said: faults.append(said.text) if "Content Security" in said.text else None)
    yield made
    made.close()
    assert not faults, faults
