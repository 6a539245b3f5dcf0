"""One service at one tick <-> one line of JSON.

Lossless: Python writes a float with as many digits as lead back to it. Times are seconds. A histogram's last edge is
always +Inf, which JSON has no number for, so it is left out.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading, Snapshot

FORMAT = 1


class BrokenRecording(ValueError):
    """The file is no recording, or of another version; the message says where."""


@dataclass(frozen=True)
class Tick:
    """What `decide` is given, beside its own state."""

    at_seconds: float  # the loop's clock
    service: Service
    snapshot: Snapshot


@dataclass(frozen=True)
class Start:
    """What the decisions of a whole recording were made with."""

    settings: Settings
    gpu_budget: int | None = None  # of all services together


def header(start: Start) -> str:
    """The first line."""
    return _json({"recording": FORMAT, **asdict(start)})


def line(tick: Tick) -> str:
    """One tick of one service, without a line break."""
    snapshot = tick.snapshot
    return _json(
        {
            "at": tick.at_seconds,
            "service": asdict(tick.service),
            "snapshot": {
                "at": snapshot.taken_at_seconds,
                "pods": [_reading(reading) for reading in snapshot.pods.values()],
                "silent": dict(snapshot.silent),
                "error": snapshot.error,
            },
        }
    )


def read(lines: Iterable[str]) -> tuple[Start, Iterator[Tick]]:
    """What it was made with, and the ticks one after the other. Raises BrokenRecording, also while iterating.

    A last line that was cut short, because the process was killed while it wrote, is left out.
    """
    numbered = enumerate(lines, 1)
    number, first = next(numbered, (1, ""))
    return _checked(number, first, _start), _ticks(numbered)


def _ticks(numbered: Iterator[tuple[int, str]]) -> Iterator[Tick]:
    for number, text in numbered:
        if text.endswith("\n"):
            yield _checked(number, text, _tick)


def _checked(number: int, text: str, made: Any) -> Any:
    try:
        return made(json.loads(text))
    except BrokenRecording:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenRecording(f"line {number} is no line of a recording: {error}") from None


def _start(found: dict[str, Any]) -> Start:
    if found["recording"] != FORMAT:
        raise BrokenRecording(f"the recording has format {found['recording']}; this version reads {FORMAT}")
    return Start(_of(Settings, found["settings"]), found["gpu_budget"])


def _tick(found: dict[str, Any]) -> Tick:
    seen = found["snapshot"]
    pods = [_pod_reading(item) for item in seen["pods"]]
    snapshot = Snapshot(seen["at"], {pod.uid: pod for pod in pods}, seen["silent"], seen["error"])
    return Tick(found["at"], _of(Service, found["service"]), snapshot)


def _reading(reading: PodReading) -> dict[str, Any]:
    return {
        "uid": reading.uid,
        "at": reading.read_at_seconds,
        "counters": dict(reading.counters),
        "gauges": dict(reading.gauges),
        "histograms": {
            name: {"edges": list(h.edges[:-1]), "counts": list(h.counts), "total": h.total}
            for name, h in reading.histograms.items()
        },
    }


def _pod_reading(found: dict[str, Any]) -> PodReading:
    histograms = {
        name: Histogram((*h["edges"], math.inf), tuple(h["counts"]), h["total"])
        for name, h in found["histograms"].items()
    }
    return PodReading(found["uid"], found["at"], found["counters"], found["gauges"], histograms)


def _of(hint: Any, value: Any) -> Any:
    """JSON's value as the type that a field declares: dataclasses, tuples, mappings, and None where it may be."""
    if value is None:
        return None
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{name: _of(hints.get(name), item) for name, item in value.items()})  # type: ignore[operator]
    arguments = get_args(hint)
    if isinstance(hint, UnionType):
        return _of(next(kind for kind in arguments if kind is not NoneType), value)
    if get_origin(hint) is tuple:
        kinds = repeat(arguments[0]) if arguments[-1] is Ellipsis else arguments
        return tuple(_of(kind, item) for kind, item in zip(kinds, value, strict=False))
    if isinstance(value, dict) and arguments:
        return {name: _of(arguments[1], item) for name, item in value.items()}
    return value


def _json(value: object) -> str:
    # NaN and infinities, which no source should let through, are written as Python reads them: a recording is there
    # to show what happened.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
