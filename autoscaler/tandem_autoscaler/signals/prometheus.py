"""Readings from a Prometheus: a handful of grouped queries for all services together.

Asked for are the raw counters, not `rate()`: rates are made in one place for both adapters, and the time of each
pod's last scrape is asked for beside them, because a query's own time says nothing about the age of its samples.

Pods are matched by the labels that Prometheus set-ups give them, in any of the usual spellings, or by the address in
`instance` where there are none; never by the model's name, which two namespaces may share (llm-d#2310,
dynamo#13461).
"""

import asyncio
import re
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from tandem_autoscaler.fleet.service import Key, Pod, Service
from tandem_autoscaler.signals import metric_names
from tandem_autoscaler.signals.exposition import Families
from tandem_autoscaler.signals.source import PodReading, Snapshot

NAMESPACE_LABELS: Final = ("exported_namespace", "namespace", "kubernetes_namespace")
POD_LABELS: Final = ("exported_pod", "pod", "kubernetes_pod_name", "pod_name")
_GROUPING: Final = (*NAMESPACE_LABELS, *POD_LABELS, "instance")


def _among(names: Iterable[str]) -> str:
    return '{__name__=~"' + "|".join(sorted(re.escape(name) for name in names)) + '"}'


def _flat(table: Mapping[str, tuple[str, ...]]) -> set[str]:
    return {name for aliases in table.values() for name in aliases}


def _grouped(function: str, names: Iterable[str], *more: str) -> str:
    return f"{function} by (__name__, {', '.join((*_GROUPING, *more))}) ({_among(names)})"


_HISTOGRAMS: Final = _flat(metric_names.HISTOGRAMS)
_PLAIN: Final = _flat(metric_names.COUNTERS) | _flat(metric_names.GAUGES)
_LABELLED: Final = metric_names.labelled_names()
_LABELS: Final = {label for series in metric_names.LABELLED.values() for _, label, _ in series} | {
    label for labels in metric_names.CAPACITY.values() for label in labels
}

# Several engines of one pod become one value here: sums for counts, the mean for ratios.
QUERIES: Final[dict[str, str]] = {
    "plain": _grouped("sum", _PLAIN),
    "ratio": _grouped("avg", _flat(metric_names.RATIOS)),
    "labelled": _grouped("sum", _LABELLED, *sorted(_LABELS)),
    "bucket": _grouped("sum", (f"{name}_bucket" for name in _HISTOGRAMS), "le"),
    "sum": _grouped("sum", (f"{name}_sum" for name in _HISTOGRAMS)),
    "count": _grouped("sum", (f"{name}_count" for name in _HISTOGRAMS)),
}
# One metric that each kind of pod has. `timestamp()` drops names, so they cannot be asked for together.
_ALWAYS_THERE: Final = (
    *metric_names.GAUGES["running"],
    "tandem:requests_in_flight",
    *metric_names.COUNTERS["router_requests_total"],
    *sorted(_LABELLED),
)
SCRAPED_AT: Final = (
    f"max by ({', '.join(_GROUPING)}) (" + " or ".join(f"timestamp({name})" for name in _ALWAYS_THERE) + ")"
)


class PrometheusSource:
    """The adapter. Nothing is asked at construction, so a wrong address does not stop the process.

    Raises ValueError when `url` is no http(s) address.
    """

    def __init__(
        self, url: str, *, timeout_seconds: float = 4.0, token_file: Path | None = None, ca_file: Path | None = None,
        verify: bool = True,
    ) -> None:  # fmt: skip
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a Prometheus: write http://host:9090")
        self._url = url.rstrip("/")
        # For sentences, which end in statuses and on the web page: without a password that the address may hold.
        self._where = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._token_file = token_file
        self._ca_file = ca_file if verify else None
        self._session = requests.Session()
        # What the environment says about proxies and certificates is not meant for this connection.
        self._session.trust_env = False
        self._session.verify = str(ca_file) if verify and ca_file else verify
        self._client = PrometheusConnect(self._url, session=self._session, retry=Retry(total=0, redirect=3))
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prometheus")
        self._pending: Future[_Answers] | None = None

    async def sample(self, services: Sequence[Service], now_seconds: float) -> dict[Key, Snapshot]:
        """A snapshot of each service within the deadline; a fault of Prometheus is in `Snapshot.error`."""
        if not services:
            return {}
        if self._pending is not None and not self._pending.done():
            return self._failed(
                services, now_seconds, f"Prometheus at {self._where} has not answered the last query yet"
            )
        self._pending = self._threads.submit(self._ask)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answers = await asyncio.shield(asyncio.wrap_future(self._pending))
        except TimeoutError:
            text = f"Prometheus at {self._where} did not answer within {self._timeout_seconds:g}s"
            return self._failed(services, now_seconds, text)
        if isinstance(answers, str):
            return self._failed(services, now_seconds, answers)
        return _snapshots(services, answers, now_seconds)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._session.close()

    def _failed(self, services: Sequence[Service], now_seconds: float, text: str) -> dict[Key, Snapshot]:
        return {service.key: Snapshot(now_seconds, error=text) for service in services}

    def _ask(self) -> "_Answers":
        """All queries, in a thread: the results by query, or a sentence why there are none."""
        deadline = time.monotonic() + self._timeout_seconds
        try:
            if self._ca_file is not None:
                ssl.create_default_context(cafile=str(self._ca_file))
            if self._token_file is not None:
                # Read each time: tokens are rotated while we run.
                self._client.headers = {"Authorization": f"Bearer {self._token_file.read_text().strip()}"}
            # All queries at one moment of Prometheus' own clock, or a scrape in between would mix two.
            moment = self._query("time()", {}, deadline)
            at = {"time": str(int(float(moment[0])))}
            return {
                "scraped_at": self._query(SCRAPED_AT, at, deadline),
                **{name: self._query(query, at, deadline) for name, query in QUERIES.items()},
            }
        except PrometheusApiClientException as error:
            return f"Prometheus at {self._where} refused: {_short(str(error))}"
        except requests.exceptions.JSONDecodeError as error:
            return f"Prometheus at {self._where} gave an answer that is none: {_short(str(error))}"
        except requests.RequestException as error:
            return f"Prometheus at {self._where} cannot be reached: {_cause(error)}"
        except ssl.SSLError as error:
            return f"the CA file {self._ca_file} holds no usable certificate: {error.reason or error}"
        except OSError as error:
            return f"{error.filename or 'a file'}: {error.strerror or error}"
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return f"Prometheus at {self._where} gave an answer that is none: {_short(str(error))}"

    def _query(self, query: str, at: Mapping[str, str], deadline: float) -> Any:
        left = deadline - time.monotonic()
        if left <= 0:
            raise requests.Timeout(f"no answer within {self._timeout_seconds:g}s")
        return self._client.custom_query(query, params=dict(at), timeout=left)


_Answers = dict[str, Any] | str


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"


def _cause(error: BaseException) -> str:
    """The innermost reason, without the library's nesting and object addresses."""
    while error.__context__ is not None:
        error = error.__context__
    return _short(re.sub(r"<[^>]*>:? ?", "", str(error)) or type(error).__name__)


def _snapshots(
    services: Sequence[Service], answers: Mapping[str, Any], now_seconds: float
) -> dict[Key, Snapshot]:
    index = _Pods(services)
    families: dict[str, Families] = {}
    for name in QUERIES:
        part = name if name in ("bucket", "sum", "count") else ""
        for item in answers[name]:
            labels: dict[str, str] = item["metric"]
            uid = index.uid_of(labels)
            if uid is None:
                continue
            target = families.get(uid)
            if target is None:
                target = families[uid] = Families()
            metric = labels.get("__name__", "")
            base = metric.removesuffix(f"_{part}") if part else metric
            target.add(base, part, labels, float(item["value"][1]))
    scraped: dict[str, float] = {}
    for item in answers["scraped_at"]:
        uid = index.uid_of(item["metric"])
        if uid is not None:
            scraped[uid] = max(scraped.get(uid, 0.0), float(item["value"][1]))
    found = {}
    for service in services:
        pods: dict[str, PodReading] = {}
        silent: dict[str, str] = {}
        for pod in (*service.pods, *service.routers):
            if pod.uid in families and pod.uid in scraped:
                pods[pod.uid] = families[pod.uid].reading(pod.uid, scraped[pod.uid])
            else:
                silent[pod.uid] = "Prometheus has no series of it"
        found[service.key] = Snapshot(now_seconds, pods, silent)
    return found


class _Pods:
    """Which pod a series belongs to."""

    def __init__(self, services: Sequence[Service]) -> None:
        pods: list[Pod] = [pod for service in services for pod in (*service.pods, *service.routers)]
        self._by_name = {(pod.namespace, pod.name): pod.uid for pod in pods}
        self._by_address = {pod.ip: pod.uid for pod in pods if pod.ip}
        # All series of a pod have the same of these labels.
        self._found: dict[tuple[str | None, ...], str | None] = {}

    def uid_of(self, labels: Mapping[str, str]) -> str | None:
        identity = tuple([labels.get(name) for name in _GROUPING])
        if identity not in self._found:
            self._found[identity] = self._search(labels)
        return self._found[identity]

    def _search(self, labels: Mapping[str, str]) -> str | None:
        for namespace_label in NAMESPACE_LABELS:
            for pod_label in POD_LABELS:
                uid = self._by_name.get((labels.get(namespace_label, ""), labels.get(pod_label, "")))
                if uid is not None:
                    return uid
        if any(label in labels for label in POD_LABELS):
            return None  # it says whose it is, and it is nobody's of ours
        host = labels.get("instance", "").rpartition(":")[0].strip("[]")
        return self._by_address.get(host)
