"""Prometheus text exposition -> `PodReading`.

A worker exports some thousand lines of which we need a few hundred, and all workers are read every few seconds:
lines of other metrics are dropped by their name before anything else is looked at. `prometheus_client`'s parser
builds an object for each sample and took 20 times as long; a test compares the two on the same text.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tandem_autoscaler.signals import metric_names
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

_LABELLED = {name for aliases, _, _ in metric_names.LABELLED.values() for name in aliases}
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

    def add(self, metric: str, part: str, labels: Mapping[str, str], value: float) -> None:
        """One sample. NaN is no value: the series counts as absent."""
        if math.isnan(value):
            return
        if part == "bucket":
            le = labels.get("le")
            if le is not None:
                table = self.buckets.setdefault(metric, {})
                edge = float(le)
                table[edge] = table.get(edge, 0.0) + value
        elif part == "sum":
            self.totals[metric] = self.totals.get(metric, 0.0) + value
        elif part == "count":
            self.plain_counts[metric] = self.plain_counts.get(metric, 0.0) + value
        else:
            self.sums[metric] = self.sums.get(metric, 0.0) + value
            self.series[metric] = self.series.get(metric, 0) + 1
            for aliases, label, wanted in metric_names.LABELLED.values():
                if metric in aliases and labels.get(label) == wanted:
                    at = (metric, label, wanted)
                    self.labelled[at] = self.labelled.get(at, 0.0) + value

    def reading(self, uid: str, read_at_seconds: float) -> PodReading:
        """The pod's reading: for each signal the newest name that is there."""
        counters = {
            s: v for s, names in metric_names.COUNTERS.items() if (v := self._first(names)) is not None
        }
        gauges = {s: v for s, names in metric_names.GAUGES.items() if (v := self._first(names)) is not None}
        for signal, (aliases, label, wanted) in metric_names.LABELLED.items():
            present = next((name for name in aliases if name in self.sums), None)
            if present is not None:
                into = gauges if signal in metric_names.LABELLED_GAUGES else counters
                into[signal] = self.labelled.get((present, label, wanted), 0.0)
        for signal, aliases in metric_names.RATIOS.items():
            present = next((name for name in aliases if name in self.sums), None)
            if present is not None:
                gauges[signal] = self.sums[present] / self.series[present]
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


def parse(text: str, *, uid: str, read_at_seconds: float) -> PodReading:
    """The reading of one pod's `/metrics`.

    Raises NotExposition for a text of another kind (an HTML error page, binary), so that garbage is told from
    an engine that exports none of our metrics.
    """
    families = Families()
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line[0] == "#" or line.isspace():
            continue
        end = line.find("{")
        name = line[:end] if end >= 0 else line.split(None, 1)[0]
        wanted = _WANTED.get(name)
        if wanted is None:
            if not name or not (name[0].isalpha() or name[0] in "_:"):
                raise NotExposition(f"line {number} is no Prometheus sample: {line[:60]!r}")
            continue
        try:
            if end >= 0:
                close = line.rindex("}")
                labels = _labels(line, end, close, wanted)
                value = float(line[close + 1 :].split()[0])
            else:
                labels, value = {}, float(line.split()[1])
            families.add(wanted[0], wanted[1], labels, value)
        except (ValueError, IndexError):
            raise NotExposition(f"line {number} is no Prometheus sample: {line[:60]!r}") from None
    return families.reading(uid, read_at_seconds)


def _labels(line: str, begin: int, end: int, wanted: tuple[str, str]) -> Mapping[str, str]:
    """The labels that are looked at: `le` of a bucket, all of a series of which only some label values count."""
    if wanted[1] == "bucket":
        at = line.find('le="', begin, end)
        if at < 0 or line[at - 1] not in "{,":
            return dict(_LABEL.findall(line[begin + 1 : end]))
        return {"le": line[at + 4 : line.index('"', at + 4)]}
    return dict(_LABEL.findall(line[begin + 1 : end])) if wanted[0] in _LABELLED else {}
