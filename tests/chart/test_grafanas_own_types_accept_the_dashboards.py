"""The dashboards against the types that Grafana publishes of them (@grafana/schema), checked by TypeScript.

A field that Grafana does not know, or a value that it does not offer, is drawn as if it were not there.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from helm.dashboards.__main__ import rendered

PACKAGES = ("@grafana/schema@12.4.11", "typescript@5.9.2")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tandem"
NPM = shutil.which("npm")
SCHEMA = "@grafana/schema/dist/esm/raw"
# By panel type: the module of its options. Rows have none.
PANELS = {"timeseries": "TimeSeries", "stat": "Stat", "table": "Table"}
# What stands in a file is a text where the types have an enumeration, and what is left out has its default.
# Datasources add fields of their own to a variable and to an annotation; these are Prometheus'.
TYPES = """
type Json<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]?: Json<T[K]> } : T;
type Dashboards = Json<Dashboard> & {
  templating?: { list?: { definition?: string }[] };
  annotations?: { list?: { expr?: string; step?: string; titleFormat?: string; textFormat?: string }[] };
};
"""

# A field of the dashboard, one of a panel's options, one of a graph's style, and a value.
MISTAKES = (
    ('"gridPos"', '"gridPosition"'),
    ('"displayMode"', '"display"'),
    ('"lineWidth"', '"width"'),
    ('"sort": "desc"', '"sort": "down"'),
)

pytestmark = pytest.mark.skipif(NPM is None, reason="npm is not installed: Grafana's types come from it")


@pytest.fixture(scope="session")
def compiler() -> Path:
    """A folder with TypeScript and Grafana's types, from the cache or from npm."""
    folder = CACHE / f"grafana-schema-{'-'.join(name.rpartition('@')[2] for name in PACKAGES)}"
    if not (folder / "node_modules/.bin/tsc").exists():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [str(NPM), "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folder


def objections(compiler: Path, work: Path, dashboards: dict[str, str]) -> list[str]:
    """What TypeScript has to say, one line each."""
    lines = [f"import type {{ Dashboard }} from '{SCHEMA}/dashboard/x/Dashboard_types.gen';"]
    for kind, name in PANELS.items():
        module = f"{SCHEMA}/composable/{kind}/panelcfg/x/{name}PanelCfg_types.gen"
        lines.append(f"import type * as {name} from '{module}';")
    lines.append(TYPES)
    for text in dashboards.values():
        dashboard = json.loads(text)
        lines.append(f"({text}) satisfies Dashboards;")
        for panel in dashboard["panels"]:
            if panel["type"] in PANELS:
                name, custom = PANELS[panel["type"]], panel["fieldConfig"]["defaults"].get("custom")
                lines.append(f"({json.dumps(panel['options'])}) satisfies Json<{name}.Options>;")
                if custom:
                    lines.append(f"({json.dumps(custom)}) satisfies Json<{name}.FieldConfig>;")
    (work / "node_modules").symlink_to(compiler / "node_modules")
    (work / "dashboards.ts").write_text("\n".join(lines))
    done = subprocess.run(
        [
            str(work / "node_modules/.bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext",
            "--target", "es2022", "dashboards.ts",
        ],
        cwd=work, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1, 2), done.stderr
    return [line for line in done.stdout.splitlines() if "error TS" in line]


def test_they_do(compiler: Path, tmp_path: Path) -> None:
    assert objections(compiler, tmp_path, rendered()) == []


def test_they_refuse_what_grafana_does_not_know(compiler: Path, tmp_path: Path) -> None:
    """Else the test above could not fail."""
    text = rendered()["service.json"]
    for number, (right, wrong) in enumerate(MISTAKES):
        assert right in text
        (work := tmp_path / str(number)).mkdir()
        assert objections(compiler, work, {"service.json": text.replace(right, wrong, 1)}), (
            f"{wrong} is accepted"
        )
