"""The dashboards' JSON by Grafana's rules: those of its dashboard schema that a wrong file breaks silently.

https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from helm.dashboards.__main__ import FOLDER, rendered

DASHBOARDS: dict[str, dict[str, Any]] = {name: json.loads(text) for name, text in rendered().items()}
# Units and panels that Grafana itself brings (packages/grafana-data/src/valueFormats, public/app/plugins/panel).
UNITS = {"short", "none", "s", "percentunit", "bool_yes_no"}
PANELS = {"timeseries", "stat", "table", "row"}
BUILT_IN = {"__rate_interval", "__range"}


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, dashboard in DASHBOARDS.items():
        yield from ((f"{name}: {panel['title']}", panel) for panel in dashboard["panels"])


PANEL = pytest.mark.parametrize(
    "panel", [panel for _, panel in panels()], ids=[title for title, _ in panels()]
)
DASHBOARD = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=list(DASHBOARDS))


def test_the_chart_has_what_the_code_says() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == rendered()


@DASHBOARD
def test_it_can_be_imported_and_found(dashboard: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", dashboard["uid"])
    assert dashboard["title"] and "tandem" in dashboard["tags"]
    assert dashboard["schemaVersion"] >= 36
    assert dashboard.get("id") is None and "__inputs" not in dashboard
    # A ConfigMap holds a megabyte.
    assert len(json.dumps(dashboard)) < 200_000


@DASHBOARD
def test_panels_have_ids_of_their_own_and_do_not_overlap(dashboard: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    boxes = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(box["x"] >= 0 and box["w"] > 0 and box["h"] > 0 and box["x"] + box["w"] <= 24 for box in boxes)
    for one, other in combinations(boxes, 2):
        apart = (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        )  # fmt: skip
        assert apart, (one, other)


@DASHBOARD
def test_variables_are_defined_before_they_are_used(dashboard: dict[str, Any]) -> None:
    known: set[str] = set(BUILT_IN)
    for variable in dashboard["templating"]["list"]:
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(variable)))
        assert used <= known, variable["name"]
        known.add(variable["name"])
    used = set(
        re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"]) + json.dumps(dashboard.get("annotations")))
    )
    assert used <= known
    assert known - BUILT_IN <= used | {"datasource"}


@PANEL
def test_a_panel_is_one_that_every_grafana_draws(panel: dict[str, Any]) -> None:
    assert panel["type"] in PANELS
    if panel["type"] == "row":
        assert panel["panels"] == [] and panel["collapsed"] is False
        return
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    references = [target["refId"] for target in panel["targets"]]
    assert references and len(references) == len(set(references))
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert target["range"] != target["instant"]
        assert target["expr"].count("(") == target["expr"].count(")")


@PANEL
def test_a_legend_names_only_labels_that_the_query_keeps(panel: dict[str, Any]) -> None:
    for target in panel.get("targets", []):
        kept = re.match(r"(?:sum|max|count|histogram_quantile\([\d.]+, sum) by \(([\w, ]+)\)", target["expr"])
        if kept and target["legendFormat"] != "__auto":
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert labels <= set(re.split(r", ", kept[1])), target


def test_a_service_is_shown_with_what_was_promised_of_it() -> None:
    text = json.dumps(DASHBOARDS["service.json"])
    for metric in (
        "tandem_autoscaler_tail_seconds", "tandem_autoscaler_target_seconds", "tandem_operator_workers",
        "tandem_autoscaler_target_replicas", "role:tandem_attainment:ratio_rate1h", "tandem_operator_gpus",
    ):  # fmt: skip
        assert metric in text
    (decisions,) = DASHBOARDS["service.json"]["annotations"]["list"]
    assert "tandem_autoscaler_target_replicas" in decisions["expr"] and decisions["enable"]
