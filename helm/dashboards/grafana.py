"""Panels, rows and variables of a Grafana dashboard, as values, and their JSON.

Only panel types and fields of Grafana's own core since version 9 are used (schema 36).
"""

from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24
Json = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A PromQL expression; `legend` in Grafana's spelling, with {{label}}. `instant`: the present alone."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True)
class Panel:
    """`unit` is one of Grafana's ids: s, percentunit, short, reqps, none. `about` is what (i) shows."""

    kind: str
    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 8
    height: int = 8
    about: str = ""
    stacked: bool = False
    # Series whose legend matches are drawn as dashed steps: targets and limits.
    dashed: str = ""


@dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


def _target(number: int, query: Query, kind: str) -> Json:
    return {
        "refId": chr(ord("A") + number),
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": query.instant,
        "range": not query.instant,
        **({"format": "table"} if kind == "table" else {}),
    }


def _field_config(panel: Panel) -> Json:
    custom: Json = {}
    if panel.kind == "timeseries":
        custom = {
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    overrides = []
    if panel.dashed:
        look = {
            "lineStyle": {"fill": "dash", "dash": [8, 6]},
            "lineInterpolation": "stepAfter",
            "fillOpacity": 0,
            "stacking": {"mode": "none", "group": "B"},
        }
        overrides.append(
            {
                "matcher": {"id": "byRegexp", "options": panel.dashed},
                "properties": [{"id": f"custom.{name}", "value": value} for name, value in look.items()],
            }
        )
    return {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": overrides}


_OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}


def _panel(panel: Panel, number: int, x: int, y: int) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": [_target(index, query, panel.kind) for index, query in enumerate(panel.queries)],
        "fieldConfig": _field_config(panel),
        "options": _OPTIONS[panel.kind],
        # A table shows labels; the time of the reading is noise.
        **(
            {"transformations": [{"id": "organize", "options": {"excludeByName": {"Time": True}}}]}
            if panel.kind == "table"
            else {}
        ),
    }


def _laid_out(rows: tuple[Row, ...]) -> list[Json]:
    found: list[Json] = []
    number, y = 1, 0
    for row in rows:
        found.append(
            {
                "id": number,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1},
            }
        )
        number, y, x, lowest = number + 1, y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y, lowest = 0, y + lowest, 0
            found.append(_panel(panel, number, x, y))
            number, x, lowest = number + 1, x + panel.width, max(lowest, panel.height)
        y += lowest
    return found


def variable(name: str, metric: str, of: str = "") -> Json:
    query = f"label_values({metric}{of}, {name})"
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "includeAll": False,
        "multi": False,
    }


_DATASOURCE = {
    "name": "datasource",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
    "refresh": 1,
}


def dashboard(
    uid: str, title: str, about: str, variables: list[Json], rows: tuple[Row, ...], **more: Any
) -> Json:
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["tandem", "llm"],
        "schemaVersion": 36,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_DATASOURCE, *variables]},
        "panels": _laid_out(rows),
        **more,
    }


def per_second(metric: str, by: str = "") -> str:
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}[$__rate_interval]))"


def stat(title: str, expr: str, unit: str = "short", about: str = "") -> Panel:
    return Panel("stat", title, (Query(expr),), unit=unit, width=4, height=4, about=about)


def gpu_hours(gpus: str) -> Panel:
    """GPU-hours over the time range that is shown. Minutes are counted, so that one without GPUs counts nothing."""
    query = Query(f"sum_over_time({gpus}[$__range:1m]) / 60", instant=True)
    return Panel(
        "stat", "GPU-hours in view", (query,), width=4, height=4, about="Over the time range that is shown."
    )
