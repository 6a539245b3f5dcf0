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


# Colours have a meaning, the same in every panel: a role's own, and these.
GOOD, WARN, BAD, PLAIN, GREY = "green", "orange", "red", "text", "#8e8e8e"
_ROLES = {"prefill": "blue", "decode": "purple", "workers": "yellow"}
# A regular expression, in slashes: without them Grafana wants the whole name to match.
Colours = tuple[tuple[str, str], ...]
# Of the autoscaler's decisions (tandem_autoscaler.decide.decision.Why).
REASONS: Colours = (
    # Whatever has no colour below has to do with missing data or with somebody else's hand.
    ("/.+/", GREY),
    ("/Steady/", "dark-green"),
    ("/Confirming|LessNeeded|ToZero/", GOOD),
    ("/Starting/", "light-green"),
    ("/TTFTNeed|TPOTNeed|FromZero|RoleFlip/", "blue"),
    ("/Backlog|SLOBurn|DecodeBound|WorkersUnready/", WARN),
    ("/GPUBudget|AboveMaximum/", BAD),
)


def by_role(darker: str = "") -> Colours:
    """Each role's series in its colour; those that match `darker` in a darker tone of it."""
    plain = [(f"/{role}/", colour) for role, colour in _ROLES.items()]
    dark = [(f"/(?=.*{role})(?=.*{darker})/", f"dark-{colour}") for role, colour in _ROLES.items() if darker]
    return tuple(plain + dark)


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
    # What has one value until it has the next: a line of steps.
    steps: bool = False
    # Seconds from a few thousandths to a minute in one picture.
    logarithmic: bool = False
    # Series whose legend matches are drawn as dashed steps: targets and limits.
    dashed: str = ""
    # (legend, colour); a later one wins.
    colours: Colours = ()
    # (from this value on, colour). Without: one plain colour for a number, Grafana's palette for lines.
    thresholds: tuple[tuple[float, str], ...] = ()
    # Shown where there is no value, because that is as it should be.
    none: str = ""
    maximum: float | None = None
    # The axis begins and ends here unless values lie beyond.
    soft_minimum: float | None = None
    soft_maximum: float | None = None
    # Coloured bands over time, of which only the colours say something.
    bands: bool = False
    # Pixels of a legend beside it, for names that are many or long; 0: below it.
    legend_right: int = 0
    # A table's: what becomes of its columns, and the order of its rows.
    transformations: tuple[Json, ...] = ()
    sorted_by: tuple[str, ...] = ()
    overrides: tuple[Json, ...] = ()


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
    floating = panel.logarithmic or panel.soft_minimum is not None
    defaults: Json = {
        "unit": panel.unit,
        **({} if floating else {"min": 0}),
        **({} if panel.maximum is None else {"max": panel.maximum}),
        **({"noValue": panel.none} if panel.none else {}),
    }
    overrides: list[Json] = []
    if panel.kind == "timeseries":
        defaults["custom"] = _lines(panel)
        overrides += [
            _override(legend, [("color", {"mode": "fixed", "fixedColor": colour})])
            for legend, colour in panel.colours
        ]
    elif panel.kind == "stat":
        # Else Grafana takes 80 of anything for too much.
        steps = panel.thresholds or ((0, PLAIN),)
        defaults["color"] = {"mode": "thresholds"}
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [
                {"value": None if number == 0 else value, "color": colour}
                for number, (value, colour) in enumerate(steps)
            ],
        }
    if panel.bands:
        overrides.append(
            {
                "matcher": {"id": "byType", "options": "number"},
                "properties": [{"id": "custom.axisPlacement", "value": "hidden"}],
            }
        )
    if panel.dashed:
        look = {
            "lineStyle": {"fill": "dash", "dash": [8, 6]},
            "lineInterpolation": "stepAfter",
            "fillOpacity": 0,
            "stacking": {"mode": "none", "group": "B"},
        }
        overrides.append(_override(panel.dashed, [(f"custom.{name}", value) for name, value in look.items()]))
    return {"defaults": defaults, "overrides": [*overrides, *panel.overrides]}


def _override(legend: str, properties: list[tuple[str, Any]]) -> Json:
    return {
        "matcher": {"id": "byRegexp", "options": legend},
        "properties": [{"id": name, "value": value} for name, value in properties],
    }


def _lines(panel: Panel) -> Json:
    found: Json = {
        "lineWidth": 0 if panel.bands else 1 if panel.stacked else 2,
        "lineInterpolation": "stepAfter" if panel.steps else "linear",
        "fillOpacity": 70 if panel.bands else 50 if panel.stacked else 0,
        "showPoints": "never",
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }
    if panel.logarithmic:
        found["scaleDistribution"] = {"type": "log", "log": 10}
    if panel.soft_minimum is not None:
        found["axisSoftMin"] = panel.soft_minimum
    if panel.soft_maximum is not None:
        found["axisSoftMax"] = panel.soft_maximum
    return found


_OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}


def _options(panel: Panel) -> Json:
    found = _OPTIONS[panel.kind]
    if panel.sorted_by:
        found = {**found, "sortBy": [{"displayName": name, "desc": False} for name in panel.sorted_by]}
    if panel.legend_right:
        beside = {"placement": "right", "width": panel.legend_right}
        found = {**found, "legend": {**found["legend"], **beside}}
    return found


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
        "options": _options(panel),
        **({"transformations": list(panel.transformations)} if panel.transformations else {}),
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


def stat(title: str, expr: str, unit: str = "short", about: str = "", **more: Any) -> Panel:
    """The present value, as large as it goes. `more`: fields of a panel."""
    return Panel("stat", title, (Query(expr),), unit=unit, width=4, height=4, about=about, **more)


def gpu_hours(gpus: str) -> Panel:
    """GPU-hours over the time range that is shown. Minutes are counted, so that one without GPUs counts nothing."""
    query = Query(f"sum_over_time({gpus}[$__range:1m]) / 60", instant=True)
    return Panel(
        "stat", "GPU-hours in view", (query,), width=4, height=4, about="Over the time range that is shown."
    )
