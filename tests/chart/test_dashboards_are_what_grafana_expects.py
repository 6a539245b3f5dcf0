"""The dashboards' JSON by Grafana's rules: those of its dashboard schema that a wrong file breaks silently.

https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

import json
import re
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest

from helm.dashboards.__main__ import FOLDER, rendered
from helm.dashboards.grafana import BAD, REASONS, WARN
from tandem_autoscaler.decide.decision import Why

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


# Of each label that a legend names, all that it may be.
LABELS = {
    "role": ("prefill", "decode", "workers"),
    "state": ("ready", "starting", "draining"),
    "reason": tuple(Why),
    "outcome": ("done",), "verb": ("apply",), "resource": ("pods",), "namespace": ("prod",), "service": ("chat",),
}  # fmt: skip


def legends(panel: dict[str, Any]) -> Iterator[str]:
    """Every name that a series of this panel may have."""
    for target in panel["targets"]:
        named = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        for values in product(*(LABELS[name] for name in named)):
            text = target["legendFormat"]
            for name, value in zip(named, values, strict=True):
                text = text.replace(f"{{{{{name}}}}}", value)
            yield text


def matches(pattern: str, legend: str) -> bool:
    """As Grafana's stringToJsRegex: in slashes it is searched for, without it is the whole name."""
    if pattern.startswith("/"):
        return re.search(pattern.strip("/"), legend) is not None
    return re.fullmatch(pattern, legend) is not None


@PANEL
def test_whatever_is_drawn_in_its_own_way_is_a_series_of_the_panel(panel: dict[str, Any]) -> None:
    for override in panel.get("fieldConfig", {}).get("overrides", []):
        if override["matcher"]["id"] == "byRegexp":
            pattern = override["matcher"]["options"]
            assert any(matches(pattern, legend) for legend in legends(panel)), pattern


@PANEL
def test_what_is_promised_and_what_limits_is_dashed(panel: dict[str, Any]) -> None:
    if panel["type"] != "timeseries":
        return
    dashed = [
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        if any(one["id"] == "custom.lineStyle" for one in override["properties"])
    ]
    for legend in legends(panel):
        limit = re.search(r"target|promised|maxReplicas|budget", legend) is not None
        assert any(matches(pattern, legend) for pattern in dashed) is limit, legend


@PANEL
def test_a_number_is_red_only_where_somebody_said_from_when(panel: dict[str, Any]) -> None:
    """Grafana's own default calls 80 of anything too much."""
    if panel["type"] == "stat":
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert steps[0]["value"] is None
        assert len(steps) > 1 or steps[0]["color"] == "text"


@pytest.mark.parametrize(
    "why, colour",
    [
        (Why.STEADY, "dark-green"), (Why.TTFT_NEED, "blue"), (Why.SLO_BURN, WARN), (Why.GPU_BUDGET, BAD),
        (Why.ABOVE_MAXIMUM, BAD),
    ],
)  # fmt: skip
def test_a_reason_has_the_colour_of_what_it_means(why: Why, colour: str) -> None:
    assert [found for pattern, found in REASONS if matches(pattern, why)][-1] == colour


def test_a_service_is_shown_with_what_was_promised_of_it() -> None:
    text = json.dumps(DASHBOARDS["service.json"])
    for metric in (
        "tandem_autoscaler_tail_seconds", "tandem_autoscaler_target_seconds", "tandem_operator_workers",
        "tandem_autoscaler_target_replicas", "role:tandem_attainment:ratio_rate1h", "tandem_operator_gpus",
    ):  # fmt: skip
        assert metric in text
    (decisions,) = DASHBOARDS["service.json"]["annotations"]["list"]
    assert "tandem_autoscaler_target_replicas" in decisions["expr"] and decisions["enable"]
