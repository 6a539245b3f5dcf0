"""What `kubectl tandem` prints, as pictures: the real program, its colours, and Chromium as the camera."""

import copy
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

from playwright.sync_api import Browser
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tandem_api.kubernetes.cluster import Manifest
from tests.cli.stub_cluster import StubCluster
from tests.dashboard.simulated_world import World

COLUMNS = 100
SIZE = ("size", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--concurrency", "100")
COMMANDS = {
    "terminal-explain": ("explain", "chat", "-n", "prod"),
    "terminal-size": (*SIZE, "--context", "8192"),
}


def pictures(browser: Browser, folder: Path, world: World) -> list[Path]:
    """One per command; `explain` reads the status that the loop has written for prod/chat."""
    stub = StubCluster()
    stub.add_service(_of_now(world, ("prod", "chat")))
    try:
        with tempfile.TemporaryDirectory() as scratch:
            kubeconfig = stub.kubeconfig(Path(scratch))
            return [
                _picture(browser, folder / f"{name}.png", words, _printed(kubeconfig, words))
                for name, words in COMMANDS.items()
            ]
    finally:
        stub.close()


def _of_now(world: World, key: tuple[str, str]) -> Manifest:
    """The manifest with its changes at the simulated times, told from now: the loop stamps them as they are made."""
    manifest = copy.deepcopy(world.services[key].manifest)
    scaling, changes = manifest["status"]["autoscaling"], list(world.trail.stories[key].changes)
    ahead = time.time() - world.clock()
    for item, change in zip(scaling["history"], changes, strict=False):
        item["at"] = _stamp((change.at_seconds or 0.0) + ahead)
    for role, item in scaling["roles"].items():
        last = next(change.at_seconds for change in changes if change.role == role)
        item["at"] = _stamp((last or 0.0) + ahead)
    return manifest


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _printed(kubeconfig: Path, words: tuple[str, ...]) -> str:
    environment = {
        **os.environ, "KUBECONFIG": str(kubeconfig), "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
    }  # fmt: skip
    command = [sys.executable, "-m", "tandem_autoscaler.cli.main", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.stderr or not done.stdout:  # the status of `size` is 1 where it does not fit
        raise RuntimeError(done.stderr)
    return done.stdout


def _picture(browser: Browser, path: Path, words: tuple[str, ...], printed: str) -> Path:
    recorded = Console(record=True, width=COLUMNS, file=StringIO())
    recorded.print(Text.from_ansi(f"$ kubectl tandem {' '.join(words)}\n{printed}"))
    page = browser.new_page(viewport={"width": 400, "height": 300})
    page.set_content(
        recorded.export_html(
            theme=MONOKAI, inline_styles=True,
            code_format='<body style="margin:0;background:{background};color:{foreground}"><pre style="display:'
            "inline-block;margin:0;padding:14px;font:13px/1.35 'DejaVu Sans Mono',monospace\">{code}</pre></body>",
        )
    )  # fmt: skip
    page.locator("pre").screenshot(path=path)
    page.close()
    return path
