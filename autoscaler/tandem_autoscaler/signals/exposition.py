"""Prometheus text exposition -> `PodReading`.

A worker exports some thousand lines of which we need a few hundred, and all workers are read every few seconds:
what a line's name and labels mean is worked out once and then known by its beginning, which is the same at each scrape
and for all workers of a version. `prometheus_client`'s parser builds an object for each sample and took 25 times as
long; a test compares the two on the same text.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tandem_autoscaler.signals import metric_names
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

_LABELLED = metric_names.labelled_names()
# Metric -> the series of it, as (metric, label, value), that count.
_COUNTED: dict[str, set[tuple[str, str, str]]] = {}
for _series in metric_names.LABELLED.values():
    for _at in _series:
        _COUNTED.setdefault(_at[0], set()).add(_at)
_WANTED: dict[str, tuple[str, str]] = {}  # name of a line -> (metric, part)
for _name in metric_names.all_names():
    _WANTED[_name] = (_name, "")
for _aliases in metric_names.HISTOGRAMS.values():
    for _name in _aliases:
        _WANTED[f"{_name}_bucket"] = (_name, "bucket")
        _WANTED[f"{_name}_sum"] = (_name, "sum")
        _WANTED[f"{_name}_count"] = (_name, "count")


class NotExposition(ValueError):
    """The text is not Prometheus' format; the message says where."""


@dataclass
class Families:
    """Series of one pod, added up over their labels as `metric_names` asks."""

    sums: dict[str, float] = field(default_factory=dict)
    series: dict[str, int] = field(default_factory=dict)
    labelled: dict[tuple[str, str, str], float] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    # Count of a histogram without buckets (a summary, or a query that asked for sum and count only).
    plain_counts: dict[str, float] = field(default_factory=dict)
    capacity_tokens: float = 0.0  # of the KV caches; 0: not told

    def add(self, metric: str, part: str, labels: Mapping[str, str], value: float) -> None:
        """One sample. NaN is no value: the series counts as absent."""
        if math.isnan(value):
            return
        if part == "bucket":
            if "le" in labels:
                self.add_bucket(metric, float(labels["le"]), value)
        elif part == "sum":
            self.totals[metric] = self.totals.get(metric, 0.0) + value
        elif part == "count":
            self.plain_counts[metric] = self.plain_counts.get(metric, 0.0) + value
        else:
            self.sums[metric] = self.sums.get(metric, 0.0) + value
            self.series[metric] = self.series.get(metric, 0) + 1
            for at in _COUNTED.get(metric, ()):
                if labels.get(at[1]) == at[2]:
                    self.labelled[at] = self.labelled.get(at, 0.0) + value
            if metric in metric_names.CAPACITY:
                self.capacity_tokens += value * _product(labels, metric_names.CAPACITY[metric])

    def add_bucket(self, metric: str, edge: float, value: float) -> None:
        """One bucket's cumulative count, which is not NaN."""
        table = self.buckets.get(metric)
        if table is None:
            table = self.buckets[metric] = {}
        table[edge] = table.get(edge, 0.0) + value

    def reading(self, uid: str, read_at_seconds: float) -> PodReading:
        """The pod's reading: for each signal the newest name that is there."""
        counters = {
            s: v for s, names in metric_names.COUNTERS.items() if (v := self._first(names)) is not None
        }
        gauges = {s: v for s, names in metric_names.GAUGES.items() if (v := self._first(names)) is not None}
        for signal, series in metric_names.LABELLED.items():
            counted = next((at for at in series if at[0] in self.sums), None)
            if counted is not None:
                into = gauges if signal in metric_names.LABELLED_GAUGES else counters
                into[signal] = self.labelled.get(counted, 0.0)
        for signal, aliases in metric_names.RATIOS.items():
            present = next((name for name in aliases if name in self.sums), None)
            if present is not None:
                gauges[signal] = self.sums[present] / self.series[present]
        if self.capacity_tokens > 0 and "kv_usage" in gauges:
            gauges.setdefault("kv_tokens", gauges["kv_usage"] * self.capacity_tokens)
        histograms = {}
        for signal, aliases in metric_names.HISTOGRAMS.items():
            histogram = next((h for name in aliases if (h := self._histogram(name)) is not None), None)
            if histogram is not None:
                histograms[signal] = histogram
        return PodReading(uid, read_at_seconds, counters, gauges, histograms)

    def _first(self, aliases: Iterable[str]) -> float | None:
        return next((self.sums[name] for name in aliases if name in self.sums), None)

    def _histogram(self, name: str) -> Histogram | None:
        if name in self.buckets:
            return Histogram.from_cumulative(self.buckets[name], self.totals.get(name, 0.0))
        if name in self.plain_counts:
            return Histogram((math.inf,), (self.plain_counts[name],), self.totals.get(name, 0.0))
        return None


def _product(labels: Mapping[str, str], names: Iterable[str]) -> float:
    """Of labels that are numbers; 0 where one is none (vLLM writes "None" until it has measured)."""
    try:
        found = math.prod([float(labels.get(name, "")) for name in names])
    except ValueError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def parse(text: str, *, uid: str, read_at_seconds: float) -> PodReading:
    """The reading of one pod's `/metrics`.

    Raises NotExposition for a text of another kind (an HTML error page, binary), so that garbage is told from
    an engine that exports none of our metrics.
    """
    families = Families()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            beginning, _, value_text = line.rpartition(" ")
            place = _place(beginning)
            if place is _UNUSUAL or "\t" in value_text:
                place, value_text = _unusual(line)
            if place is None:
                continue
            value = float(value_text)
        except (ValueError, IndexError):
            raise NotExposition(f"line {number} is no Prometheus sample: {line[:60]!r}") from None
        if place.edge is not None and value == value:
            families.add_bucket(place.metric, place.edge, value)
        else:
            families.add(place.metric, place.part, place.labels, value)
    return families.reading(uid, read_at_seconds)


@dataclass(frozen=True, eq=False)
class _Place:
    """What the value of a line belongs to. `labels` are those that are looked at."""

    metric: str
    part: str
    labels: Mapping[str, str]
    edge: float | None  # of a bucket


_UNUSUAL: Final = _Place("", "", {}, None)  # a line with a timestamp or with other white space than one blank


# Many times the lines of one worker: routers have a label for each of theirs.
@lru_cache(maxsize=1 << 15)
def _place(beginning: str) -> _Place | None:
    """Of a line by all that stands before its value; None: of no interest. Raises ValueError for no metric's name."""
    if beginning.startswith("#"):
        return None
    end = beginning.find("{")
    name = beginning[:end] if end >= 0 else beginning
    if name.split() != [name] or (end >= 0 and beginning[-1] != "}"):
        return _UNUSUAL
    wanted = _wanted(name)
    if wanted is None:
        return None
    labels = _labels(beginning, end, wanted) if end >= 0 else {}
    edge = float(labels["le"]) if wanted[1] == "bucket" and "le" in labels else None
    return _Place(*wanted, labels, edge)


def _unusual(line: str) -> tuple[_Place | None, str]:
    """(place, value) of any other line."""
    if not line or line[0] == "#" or line.isspace():
        return None, ""
    end = line.find("{")
    name = line[:end] if end >= 0 else line.split(None, 1)[0]
    if _wanted(name) is None:
        return None, ""
    if end < 0:
        return _place(name), line.split()[1]
    close = line.rindex("}")
    return _place(line[: close + 1]), line[close + 1 :].split()[0]


def _wanted(name: str) -> tuple[str, str] | None:
    """(metric, part). Raises ValueError when it is no name at all."""
    if not name or not (name[0].isalpha() or name[0] in "_:"):
        raise ValueError(name)
    return _WANTED.get(name)


def _labels(line: str, begin: int, wanted: tuple[str, str]) -> Mapping[str, str]:
    """The labels that are looked at: `le` of a bucket, all of a series of which only some label values count."""
    if wanted[1] == "bucket" or wanted[0] in _LABELLED:
        return dict(_LABEL.findall(line[begin + 1 : -1]))
    return {}
