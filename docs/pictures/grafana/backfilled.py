"""A real Prometheus that holds the scrapes, and what the chart's recording rules make of them."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from docs.pictures.grafana.scrapes import Sample, Scrapes
from tests.chart.chart import CHART
from tests.real_prometheus import PROGRAM, started

_RULES = CHART / "files" / "prometheus" / "rules.yaml"
# Its series are what the other groups' rules are made from.
_FIRST_GROUP = "tandem-targets"
_START_SECONDS = 60.0
Rule = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """From when to when (Unix seconds), and the seconds between scrapes and between evaluations of a rule."""

    begin_seconds: float
    end_seconds: float
    every_seconds: float

    def moments(self) -> Iterator[float]:
        moment = self.begin_seconds
        while moment <= self.end_seconds:
            yield moment
            moment += self.every_seconds


def fill(folder: Path, scrapes: Path, span: Span) -> None:
    """Writes Prometheus' data below `folder`. Raises CalledProcessError with promtool's words.

    `promtool tsdb create-blocks-from rules` will not do: it asks for ranges, in which count_values of Prometheus 2.42
    loses labels from one step to the next. The first group has it, so it is asked for moment by moment.
    """
    _take_in(folder, scrapes)
    groups = yaml.safe_load(_RULES.read_text())["groups"]
    recording = [(group["name"], rule) for group in groups for rule in group["rules"] if "record" in rule]
    for first, ask in ((True, _moment_by_moment), (False, _as_a_range)):
        recorded = Scrapes(folder / f"recorded-{'first' if first else 'then'}.txt")
        # It looks for blocks that others wrote when it starts.
        with (
            prometheus(folder, span.every_seconds) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
        ):
            for group, rule in recording:
                if (group == _FIRST_GROUP) is first:
                    for moment, sample in ask(http, rule, span):
                        recorded.add(moment, [sample])
        recorded.close()
        _take_in(folder, recorded.path)


def _moment_by_moment(http: httpx.Client, rule: Rule, span: Span) -> Iterator[tuple[float, Sample]]:
    for moment in span.moments():
        for series in _result(http, "/api/v1/query", rule, {"time": moment}):
            yield moment, _sample(rule, series, series["value"][1])


def _as_a_range(http: httpx.Client, rule: Rule, span: Span) -> Iterator[tuple[float, Sample]]:
    when = {"start": span.begin_seconds, "end": span.end_seconds, "step": span.every_seconds}
    for series in _result(http, "/api/v1/query_range", rule, when):
        for moment, value in series["values"]:
            yield moment, _sample(rule, series, value)


def _result(http: httpx.Client, path: str, rule: Rule, when: dict[str, float]) -> list[dict[str, Any]]:
    answer = http.get(path, params={"query": rule["expr"], **when}).json()
    if answer["status"] != "success":
        raise RuntimeError(f"{rule['record']}: {answer.get('error')}")
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def _sample(rule: Rule, series: dict[str, Any], value: str) -> Sample:
    labels = {name: label for name, label in series["metric"].items() if name != "__name__"}
    return Sample(rule["record"], {**labels, **rule.get("labels", {})}, float(value))


@contextlib.contextmanager
def prometheus(folder: Path, every_seconds: float) -> Iterator[str]:
    """The address of one that answers, over the data below `folder`. Raises RuntimeError where it does not start.

    What a Prometheus scrapes itself ends with the scrape that lacks it; what it takes in from files only when it has
    been old for so long, five minutes by default. So here a series is old before the next scrape comes.
    """
    if PROGRAM is None:
        raise RuntimeError("Prometheus is not installed: apt-get install prometheus")
    with started(folder, "{}", flags=(f"--query.lookback-delta={0.95 * every_seconds:.0f}s",)) as running:
        deadline = time.monotonic() + _START_SECONDS
        while not _is_ready(running.url):
            if running.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Prometheus does not start: {running.log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield running.url


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _take_in(folder: Path, text: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        raise RuntimeError("promtool is not installed: it comes with apt-get install prometheus")
    subprocess.run(
        [program, "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
