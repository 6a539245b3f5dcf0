"""`python -m docs.pictures.grafana [--again] [FOLDER]`: the pictures, into this folder (default: docs/pictures).

Their data are simulated, kept below build/grafana, asked for and drawn. `--again`: draw the last data again.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from docs.pictures.grafana.backfilled import Span, fill, prometheus
from docs.pictures.grafana.operated_world import SCRAPE_SECONDS, OperatedWorld
from docs.pictures.grafana.pictures import pictures
from docs.pictures.grafana.questions import Questions, empty_panels
from docs.pictures.grafana.scrapes import Scrapes
from helm.dashboards.__main__ import FOLDER as DASHBOARDS
from tandem_autoscaler.simulator.readings import EPOCH_SECONDS
from tests.dashboard.fleets import GPU_BUDGET, peopled

KEPT = Path(__file__).parents[3] / "build" / "grafana"
# The recorded loads last for an hour: their end is left out, and what happens while everything is new is not shown.
MINUTES, SHOWN_MINUTES = 55, 45
NODES = {"node-a": 8, "node-b": 8, "node-c": 8}
# Dashboard -> what the user has chosen at its top.
CHOSEN = {"service": {"namespace": "prod", "service": "chat"}, "fleet": {}}
_END_SECONDS = EPOCH_SECONDS + 60.0 * MINUTES


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.pictures.grafana", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--again", action="store_true", help="draw the last data again")
    asked = parser.parse_args(arguments)
    if not asked.again:
        _simulate()
    elif not (KEPT / "data").exists():
        print("there are no data yet: leave --again out", file=sys.stderr)
        return 1
    answers = _ask()
    empty = [f"{name}: {title}" for name, one in answers.items() for title in empty_panels(one)]
    if empty:
        print(f"panels without data: {', '.join(empty)}", file=sys.stderr)
        return 1
    for path in pictures(answers, asked.folder):
        print(path)
    return 0


def _simulate() -> None:
    began = time.monotonic()
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    scrapes = Scrapes(KEPT / "scrapes.txt")
    world = OperatedWorld(scrapes, gpu_budget=GPU_BUDGET, nodes=NODES)
    peopled(world, minutes=MINUTES)
    world.operate(60.0 * MINUTES)
    world.end()
    scrapes.close()
    print(f"{MINUTES} minutes simulated in {time.monotonic() - began:.0f} s", flush=True)
    fill(KEPT, scrapes.path, Span(EPOCH_SECONDS, _END_SECONDS, SCRAPE_SECONDS))


def _ask() -> dict[str, Any]:
    """Per dashboard, all that its page draws."""
    found: dict[str, Any] = {}
    with prometheus(KEPT, SCRAPE_SECONDS) as url:
        questions = Questions(url, now_seconds=_END_SECONDS)
        for name, chosen in CHOSEN.items():
            dashboard = json.loads((DASHBOARDS / f"{name}.json").read_text())
            found[name] = questions.answered(dashboard, chosen, minutes=SHOWN_MINUTES)
        questions.close()
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
