"""The page in page/, bundled once, and its pictures by the machine's own Chromium."""

import contextlib
import functools
import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, TimeoutError, sync_playwright

from e2e.cluster.cache import cache_dir
from tests.dashboard.chromium import launched

_PAGE = Path(__file__).parent / "page"
_GRAFANA = "node_modules/@grafana/ui"
# Width and height in pixels (None: the whole page), colours, dashboards.
SIZES = (
    ("wide", (1600, None), ("dark", "light"), ("service", "fleet")),
    ("narrow", (480, 2000), ("dark",), ("service",)),
)


def pictures(answers: dict[str, Any], folder: Path) -> Iterator[Path]:
    """grafana-DASHBOARD-SIZE-COLOURS.png of each dashboard's answers. Raises CalledProcessError where npm fails."""
    bundle = _bundled()
    for name, one in answers.items():
        (bundle / f"{name}.json").write_text(json.dumps(one))
    with sync_playwright() as playwright, launched(playwright) as browser, _served(bundle) as url:
        for size, (width, height), colours, names in SIZES:
            for name in names:
                for mode in colours:
                    path = folder / f"grafana-{name}-{size}-{mode}.png"
                    address = f"{url}?answers={name}.json&theme={mode}"
                    _picture(browser, address, path, width, height, answers[name])
                    yield path


def _picture(
    browser: Browser, url: str, path: Path, width: int, height: int | None, answered: dict[str, Any]
) -> None:
    page = browser.new_page(
        viewport={"width": width, "height": height or 1000}, timezone_id="UTC", locale="en-GB"
    )
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    panels = [panel for panel in answered["dashboard"]["panels"] if panel["type"] != "row"]
    charts = sum(panel["type"] == "timeseries" for panel in panels)
    try:
        page.wait_for_function(f"document.querySelectorAll('.uplot').length >= {charts}", timeout=60_000)
    except TimeoutError as error:
        raise RuntimeError(f"{path.name} is not drawn: {said}") from error
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1000)  # sparklines and the table take one more turn
    page.screenshot(path=path, full_page=height is None)
    page.close()
    if said:
        raise RuntimeError(f"{path.name}: {said[0]}")
    with Image.open(path) as picture:
        picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def _bundled() -> Path:
    """The folder of the page, made anew; the packages are fetched once for each package-lock.json."""
    lock = hashlib.sha256((_PAGE / "package-lock.json").read_bytes()).hexdigest()[:12]
    work = cache_dir() / f"grafana-page-{lock}"
    for name in ("package.json", "package-lock.json", ".npmrc", "tsconfig.json"):
        work.mkdir(parents=True, exist_ok=True)
        shutil.copy(_PAGE / name, work / name)
    shutil.copytree(_PAGE / "src", work / "src", dirs_exist_ok=True)
    if not (work / _GRAFANA / "package.json").exists():
        _npm(work, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    _npm(work, "run", "bundle")
    bundle = work / "bundle"
    shutil.copy(_PAGE / "index.html", bundle)
    shutil.copytree(work / _GRAFANA / "dist/public/img", bundle / "public/build/img", dirs_exist_ok=True)
    return bundle


def _npm(work: Path, *arguments: str) -> None:
    program = shutil.which("npm")
    if program is None:
        raise RuntimeError("npm is not installed: Grafana's components come from it")
    done = subprocess.run([program, *arguments], cwd=work, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"npm {' '.join(arguments)}: {done.stdout}{done.stderr}")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
    finally:
        server.shutdown()
        server.server_close()
