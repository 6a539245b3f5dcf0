"""A trace like the load that a Prometheus has seen: requests per minute and their mean lengths, made into requests.

Arrivals are Poisson within each minute. Lengths have the shape of the whole range's histograms, scaled to the mean of
their minute. What is measured are requests that got an answer: under overload that is less than what arrived.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import requests
from numpy.typing import NDArray
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from tandem_api.durations import parse_seconds
from tandem_autoscaler.fleet.service import Service
from tandem_autoscaler.signals.metric_names import HISTOGRAMS
from tandem_autoscaler.signals.prometheus import NAMESPACE_LABELS, POD_LABELS
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces.arrivals import poisson

_GATE_PROMPT: Final = HISTOGRAMS["gate_prompt_tokens"][0]
_PROMPT: Final = HISTOGRAMS["prompt_tokens"][0]
_OUTPUT: Final = HISTOGRAMS["output_tokens"][0]
_STEP_SECONDS: Final = 60
# Prometheus answers 11,000 points per series at most.
_LONGEST_SECONDS: Final = 7 * 86400
_TIMEOUT_SECONDS: Final = 15.0
# Minutes without a sample are filled from their neighbours, up to this share.
_MOST_UNKNOWN: Final = 0.2

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Lengths:
    """A histogram: `counts[i]` requests of more than `edges[i-1]` (0 for the first) and at most `edges[i]` tokens."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]

    def draw(self, random: np.random.Generator, count: int) -> Values:
        """(count,) tokens, even within a bucket; beyond the last finite edge up to twice that."""
        weights = np.maximum(np.asarray(self.counts), 0.0)
        if not weights.sum():
            return np.ones(count)
        finite = [edge for edge in self.edges if np.isfinite(edge)]
        high = np.array([edge if np.isfinite(edge) else 2.0 * max([1.0, *finite]) for edge in self.edges])
        low = np.append(0.0, high[:-1])
        bucket = random.choice(len(weights), count, p=weights / weights.sum())
        return np.asarray(low[bucket] + (high - low)[bucket] * random.random(count))


@dataclass(frozen=True)
class Minutes:
    """(k,) per minute; nan: unknown. A mean is nan where nothing was counted, too."""

    requests: Values
    prompt_tokens: Values
    output_tokens: Values


def from_prometheus(address: str, service: Service, random: np.random.Generator) -> Trace:
    """`address`: URL[?range=6h&end=2026-01-31T18:00:00Z&namespace=NAME&match=SELECTOR].

    `match` takes PromQL matchers such as `job="vllm"` and replaces the search for the service's own pods, for engines
    that Tandem does not run yet.

    Raises:
        ValueError: one sentence.
    """
    url, _, query = address.partition("?")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address of a Prometheus: write prometheus:http://host:9090?range=1h")
    given = dict(parse_qsl(query))
    unknown = set(given) - {"range", "end", "namespace", "match"}
    if unknown:
        raise ValueError(f"prometheus:{url}: {min(unknown)!r} is none of range, end, namespace, match")
    length = int(parse_seconds(given.get("range", "1h")))
    if not 2 * _STEP_SECONDS <= length <= _LONGEST_SECONDS:
        raise ValueError(f"prometheus:{url}: range {given['range']} is not between 2m and 168h")
    end = _moment(given["end"]) if "end" in given else datetime.now(UTC)
    source = _Source(url.rstrip("/"), end, length // _STEP_SECONDS * _STEP_SECONDS)
    if "match" in given:
        selected, sought = given["match"].strip().strip("{}"), None
    else:
        selected, sought = "", (given.get("namespace", service.namespace), service.name)
    minutes, prompts, outputs = _within(_TIMEOUT_SECONDS, source.url, lambda: _read(source, selected, sought))
    return trace_of(f"{parts.hostname}-{service.name}", minutes, prompts, outputs, random)


def trace_of(
    name: str, minutes: Minutes, prompts: Lengths, outputs: Lengths, random: np.random.Generator
) -> Trace:
    """Requests like those of the minutes. Raises ValueError when there are none, or too many minutes are unknown."""
    known = np.isfinite(minutes.requests)
    if known.mean() < 1.0 - _MOST_UNKNOWN:
        raise ValueError(
            f"{name}: {np.count_nonzero(~known)} of {len(known)} minutes have no sample; choose another range and end"
        )
    rate = _filled(minutes.requests) / _STEP_SECONDS
    if not rate.any():
        raise ValueError(f"{name}: no request within these {len(known)} minutes")
    arrival = poisson(
        random, float(_STEP_SECONDS * len(rate)), lambda at: rate[(at // _STEP_SECONDS).astype(np.int64)]
    )
    minute = (arrival // _STEP_SECONDS).astype(np.int64)
    note = "made from rates and mean lengths per minute"
    if not known.all():
        note += f"; {np.count_nonzero(~known)} minutes without a sample are like their neighbours"
    return Trace(
        name, arrival,
        _lengths(prompts, minutes.prompt_tokens, minute, random),
        _lengths(outputs, minutes.output_tokens, minute, random),
        float(_STEP_SECONDS * len(rate)), note=note,
    )  # fmt: skip


def _lengths(shape: Lengths, means: Values, minute: NDArray[np.int64], random: np.random.Generator) -> Values:
    """Whole tokens with the minute's mean."""
    drawn = shape.draw(random, len(minute))
    expected = float(shape.draw(np.random.default_rng(0), 20_000).mean())
    return np.maximum(1.0, np.round(drawn * (_filled(means) / expected)[minute]))


def _filled(values: Values) -> Values:
    """Unknown ones between their neighbours; all unknown: 1."""
    known = np.isfinite(values)
    if not known.any():
        return np.ones(len(values))
    at = np.arange(len(values))
    return np.interp(at, at[known], values[known])


def _moment(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"end={text} is no time: write it as 2026-01-31T18:00:00Z") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _read(
    source: "_Source", selected: str, sought: tuple[str, str] | None
) -> tuple[Minutes, Lengths, Lengths]:
    """Requests are counted where their prompts are computed (the gate's metric counts each once); without a gate,
    where they finish.

    Under P/D a prefill worker finishes each request too, after one token: those are taken off the outputs.
    """
    prompt = _GATE_PROMPT
    requests_ = source.minutes(f"{prompt}_count", selected, sought)
    if not np.isfinite(requests_).any():
        prompt = _PROMPT
        requests_ = source.minutes(f"{prompt}_count", selected, sought)
    if not np.isfinite(requests_).any():
        whose = (
            f"with {selected}"
            if sought is None
            else f"of a pod {sought[1]}-0, -1, ... in namespace {sought[0]}"
        )
        raise ValueError(
            f"Prometheus at {source.url} has neither {_GATE_PROMPT} nor {_PROMPT} {whose} in this range"
        )
    tokens = source.minutes(f"{prompt}_sum", selected, sought)
    finished = source.minutes(f"{_OUTPUT}_count", selected, sought)
    made = source.minutes(f"{_OUTPUT}_sum", selected, sought)
    prompts, outputs = source.lengths(prompt, selected, sought), source.lengths(_OUTPUT, selected, sought)
    if prompt == _GATE_PROMPT and np.nansum(finished) > 1.5 * np.nansum(requests_):
        finished, made = finished - requests_, made - requests_
        counts = list(outputs.counts)
        if counts:
            counts[0] = max(0.0, counts[0] - float(np.nansum(requests_)))
        outputs = Lengths(outputs.edges, tuple(counts))
    return Minutes(requests_, _ratio(tokens, requests_), _ratio(made, finished)), prompts, outputs


def _ratio(total: Values, count: Values) -> Values:
    """nan where fewer than half a request was counted."""
    enough = np.nan_to_num(count) > 0.5
    return np.where(enough, total / np.where(enough, count, 1.0), np.nan)


class _Source:
    """One range of one Prometheus."""

    def __init__(self, url: str, end: datetime, length_seconds: int) -> None:
        self.url = url
        self._end, self._length = end, length_seconds
        session = requests.Session()
        # What the environment says about proxies is not meant for this connection.
        session.trust_env = False
        self._client = PrometheusConnect(url, session=session, retry=Retry(total=0, redirect=3))

    def minutes(self, metric: str, selected: str, sought: tuple[str, str] | None) -> Values:
        """(k,) growth of a counter in each minute, summed over the service's pods; nan: no sample."""
        start = self._end - timedelta(seconds=self._length - _STEP_SECONDS)
        found = self._client.custom_query_range(
            _query(metric, selected, _STEP_SECONDS),
            start,
            self._end,
            str(_STEP_SECONDS),
            timeout=_TIMEOUT_SECONDS,
        )
        first = start.timestamp()
        total = np.full(self._length // _STEP_SECONDS, np.nan)
        for series in _of(found, sought):
            for at, value in series["values"]:
                slot = round((float(at) - first) / _STEP_SECONDS)
                if 0 <= slot < len(total) and np.isfinite(float(value)):
                    total[slot] = np.nan_to_num(total[slot]) + float(value)
        return total

    def lengths(self, metric: str, selected: str, sought: tuple[str, str] | None) -> Lengths:
        """The histogram of the whole range."""
        found = self._client.custom_query(
            _query(f"{metric}_bucket", selected, self._length, "le"),
            params={"time": str(self._end.timestamp())}, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
        below: dict[float, float] = {}
        for series in _of(found, sought):
            edge = float(series["metric"]["le"])
            below[edge] = below.get(edge, 0.0) + float(series["value"][1])
        edges = tuple(sorted(below))
        counts = np.diff([0.0, *(below[edge] for edge in edges)])
        return Lengths(edges, tuple(np.maximum(counts, 0.0).tolist()))


def _query(metric: str, selected: str, seconds: int, *more: str) -> str:
    labels = ", ".join((*NAMESPACE_LABELS, *POD_LABELS, *more))
    return f"sum by ({labels}) (increase({metric}{{{selected}}}[{seconds}s]))"


def _of(found: Sequence[Mapping[str, Any]], sought: tuple[str, str] | None) -> list[Mapping[str, Any]]:
    """The series of the pods <service>-<number>; with None all."""
    if sought is None:
        return list(found)
    namespace, name = sought
    return [
        series
        for series in found
        if any(series["metric"].get(label) == namespace for label in NAMESPACE_LABELS)
        if any(_is_worker(series["metric"].get(label, ""), name) for label in POD_LABELS)
    ]


def _is_worker(pod: str, service: str) -> bool:
    return pod.startswith(f"{service}-") and pod.removeprefix(f"{service}-").isdigit()


_Answer = tuple[Minutes, Lengths, Lengths]


def _within(seconds: float, url: str, ask: Callable[[], _Answer]) -> _Answer:
    """Whatever the server does, an answer or a ValueError by then: a timeout per read is none against one that
    trickles. The thread is a daemon, so that the program can end without it."""
    answers: list[_Answer | Exception] = []

    def work() -> None:
        try:
            answers.append(ask())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        raise ValueError(f"Prometheus at {url} did not answer within {seconds:g} s")
    answer = answers[0]
    if isinstance(answer, PrometheusApiClientException):
        raise ValueError(f"Prometheus at {url} refused: {_short(str(answer))}") from None
    if isinstance(answer, requests.exceptions.JSONDecodeError | KeyError | TypeError | IndexError):
        raise ValueError(f"Prometheus at {url} gave an answer that is none") from None
    if isinstance(answer, requests.RequestException):
        raise ValueError(f"Prometheus at {url} cannot be reached: {_cause(answer)}") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:199] + "…"


def _cause(error: BaseException) -> str:
    """The innermost reason, without the library's nesting and object addresses."""
    while error.__context__ is not None:
        error = error.__context__
    text = str(error)
    return _short(text[text.index(">") + 1 :].lstrip(": ") if text.startswith("<") and ">" in text else text)
