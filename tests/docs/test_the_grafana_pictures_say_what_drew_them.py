"""Pictures of the Grafana dashboards: each is shown, and the page names the library that drew them, as it is pinned."""

import json
import re

from docs.pictures.grafana.pictures import SIZES
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()
PICTURES = ROOT / "docs" / "pictures"
SOURCES = PICTURES / "grafana" / "page"


def test_each_picture_is_there_and_shown() -> None:
    made = {
        f"grafana-{name}-{size}-{mode}.png"
        for size, _, modes, names in SIZES
        for mode in modes
        for name in names
    }
    assert {path.name for path in PICTURES.glob("grafana-*.png")} == made
    assert set(re.findall(r"pictures/(grafana-[\w-]+\.png)", PAGE)) == made


def test_the_page_names_the_pinned_version() -> None:
    package = json.loads((SOURCES / "package.json").read_text())
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values()), versions
    assert f"(`@grafana/ui` {versions['@grafana/ui']})" in PAGE


def test_the_lock_names_no_registry() -> None:
    """Whoever makes the pictures takes the packages from where their npm is told to."""
    packages = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    assert len(packages) > 100
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name, one in packages.items() if name and "integrity" not in one] == []
