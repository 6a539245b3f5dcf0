"""What a Prometheus would have scraped, as OpenMetrics text with times, which `promtool` turns into its data."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from tandem_autoscaler.signals.metric_names import COUNTERS, GAUGES, HISTOGRAMS, LABELLED, RATIOS
from tandem_autoscaler.signals.source import PodReading

# vLLM's, on each of its series.
_ENGINE = {"engine": "0", "model_name": "llama-8b"}
# Signals that vLLM does not export under a name of its own.
_NOT_VLLMS = {"kv_tokens"}


@dataclass(frozen=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float

    @property
    def series(self) -> str:
        inside = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        return f"{self.name}{{{inside}}}"


def worker_samples(reading: PodReading) -> Iterator[Sample]:
    """As vLLM and the gate in front of it export what was read: names by meaning, the other way round."""
    for signal, value in {**reading.counters, **reading.gauges}.items():
        if signal in LABELLED:
            name, label, wanted = LABELLED[signal][0]
            yield Sample(name, {**_ENGINE, label: wanted}, value)
        elif signal not in _NOT_VLLMS:
            (name, *_) = {**COUNTERS, **GAUGES, **RATIOS}[signal]
            # The gate counts by outcome, and the simulated fleet's requests all end well.
            more = {"outcome": "ok"} if name == "tandem:requests_total" else {}
            yield Sample(name, {**_labels(name), **more}, value)
    for signal, histogram in reading.histograms.items():
        name, total = HISTOGRAMS[signal][0], 0.0
        for edge, count in zip(histogram.edges, histogram.counts, strict=True):
            total += count
            le = "+Inf" if math.isinf(edge) else floatToGoString(edge)
            yield Sample(f"{name}_bucket", {**_labels(name), "le": le}, total)
        yield Sample(f"{name}_sum", _labels(name), histogram.total)
        yield Sample(f"{name}_count", _labels(name), total)


def _labels(name: str) -> dict[str, str]:
    return _ENGINE if name.startswith("vllm:") else {}


class Scrapes:
    """A file of all scrapes, in the order of time. A series' own labels win over its target's (honor_labels)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")

    def add(self, at_seconds: float, samples: Iterable[Sample], **target: str) -> None:
        for sample in samples:
            labelled = Sample(sample.name, {**target, **sample.labels}, sample.value)
            self._file.write(f"{labelled.series} {sample.value!r} {at_seconds:.3f}\n")

    def take(self, at_seconds: float, text: str, **target: str) -> None:
        """The text of a /metrics."""
        found = (
            Sample(sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )
        self.add(at_seconds, found, **target)

    def close(self) -> None:
        self._file.write("# EOF\n")
        self._file.close()
