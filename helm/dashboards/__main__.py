"""`python -m helm.dashboards [--check]`: write the chart's dashboards, or compare them."""

import json
import sys
from pathlib import Path

from helm.dashboards.fleet import fleet_dashboard
from helm.dashboards.service import service_dashboard

FOLDER = Path(__file__).parents[1] / "tandem" / "files" / "dashboards"


def rendered() -> dict[str, str]:
    """File name -> JSON text."""
    made = {"service.json": service_dashboard(), "fleet.json": fleet_dashboard()}
    return {name: json.dumps(dashboard, indent=1) + "\n" for name, dashboard in made.items()}


def main(arguments: list[str]) -> int:
    stale = []
    for name, text in rendered().items():
        path = FOLDER / name
        if arguments != ["--check"]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path))
    if stale:
        print("not what helm/dashboards says (run `make generate`): " + ", ".join(stale), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
