"""The dashboards' queries, asked as Grafana asks them, and Prometheus' answers word for word.

What Grafana fills in, for a datasource with its default scrape interval of 15 s, is told in
https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/ and done in grafana/grafana,
pkg/promlib/models/query.go: the step is never finer than the scrape interval, $__rate_interval is the larger of
step + scrape interval and four scrape intervals, and begin and end are whole steps.
"""

import re
from typing import Any

import httpx

from docs.pictures.grafana.operated_world import SCRAPE_SECONDS

Json = dict[str, Any]
# Grafana asks for no more points than a panel has pixels; an hour in steps of 15 s has 240.
_STEP_SECONDS = SCRAPE_SECONDS


class Questions:
    """For one dashboard and one moment. Raises RuntimeError with Prometheus' sentence when it refuses a query."""

    def __init__(self, url: str, *, now_seconds: float) -> None:
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=30)
        self._now = now_seconds

    def close(self) -> None:
        self._http.close()

    def answered(self, dashboard: Json, chosen: dict[str, str], *, minutes: int) -> Json:
        """What a page needs to draw it: the dashboard, its time, its variables, each panel's and annotation's answers.

        `chosen`: the user's choice of a variable; it must be one of those that Prometheus offers. `minutes`: of time.
        """
        span = 60.0 * minutes
        begin = self._now - span
        variables = self._variables(dashboard, chosen, begin)
        fill = {
            "__rate_interval": _seconds(max(_STEP_SECONDS + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS)),
            "__interval": _seconds(_STEP_SECONDS), "__range": _seconds(span), **variables,
        }  # fmt: skip
        answers = {
            panel["id"]: {
                target["refId"]: self._answer(target, _filled(target["expr"], fill), begin)
                for target in panel.get("targets", [])
            }
            for panel in dashboard["panels"]
        }
        return {
            "dashboard": dashboard, "from": begin, "to": self._now, "step": _STEP_SECONDS,
            "variables": variables, "answers": answers,
            "annotations": [
                {
                    "annotation": one,
                    "stepSeconds": _duration(one["step"]),
                    "answer": self._range(_filled(one["expr"], fill), begin, _duration(one["step"])),
                }
                for one in dashboard.get("annotations", {}).get("list", [])
            ],
        }  # fmt: skip

    def _variables(self, dashboard: Json, chosen: dict[str, str], begin: float) -> dict[str, str]:
        found: dict[str, str] = {}
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "datasource":
                continue
            asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert asked, variable["query"]
            offered = self._get(
                f"/api/v1/label/{asked[2]}/values",
                {"match[]": _filled(asked[1], found), "start": begin, "end": self._now},
            )
            value = chosen.get(variable["name"], "")
            if value not in offered:
                raise RuntimeError(f"{variable['name']} {value!r} is none of {', '.join(offered)}")
            found[variable["name"]] = value
        return found

    def _answer(self, target: Json, expr: str, begin: float) -> Json:
        if target["instant"]:
            return {"expr": expr, **self._get("/api/v1/query", {"query": expr, "time": self._now})}
        return self._range(expr, begin, _STEP_SECONDS)

    def _range(self, expr: str, begin: float, step: float) -> Json:
        asked = {"query": expr, "start": begin // step * step, "end": self._now // step * step, "step": step}
        return {"expr": expr, **self._get("/api/v1/query_range", asked)}

    def _get(self, path: str, asked: dict[str, Any]) -> Any:
        answer = self._http.get(path, params=asked).json()
        if answer["status"] != "success":
            raise RuntimeError(f"{asked}: {answer.get('error')}")
        return answer["data"]


def empty_panels(answered: Json) -> list[str]:
    """Titles of panels of which not one query has an answer, and that do not say what this means (noValue)."""
    return [
        panel["title"]
        for panel in answered["dashboard"]["panels"]
        if panel["type"] != "row"
        and "noValue" not in panel["fieldConfig"]["defaults"]
        and not any(one["result"] for one in answered["answers"][panel["id"]].values())
    ]


def _filled(text: str, values: dict[str, str]) -> str:
    """With $name replaced. Longest names first, for one may begin like another."""
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"${name}", values[name])
    if "$" in text:
        raise RuntimeError(f"not all variables are known: {text}")
    return text


def _seconds(value: float) -> str:
    return f"{value:.0f}s"


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smh])", text)
    assert found, text
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]
