"""Field cases A16, A17, A19-A21 against a real Prometheus that scrapes a small exporter of the test."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from e2e.cluster.control_plane import free_ports
from tandem_api import names
from tandem_autoscaler.fleet.service import Pod, Service
from tandem_autoscaler.main import parser
from tandem_autoscaler.signals.exposition import parse
from tandem_autoscaler.signals.prometheus import QUERIES, SCRAPED_AT, PrometheusSource
from tests.autoscaler.exported import Exported
from tests.autoscaler.served import Serve
from tests.real_prometheus import Running, needs_prometheus, started


class Exporter:
    """Many pods behind one port, by path; each path can be moved or fail."""

    def __init__(self) -> None:
        self.pods: dict[str, Exported] = {}
        pods = self.pods

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exported = pods.get(self.path.strip("/"))
                body = exported.text().encode() if exported else b""
                self.send_response(200 if exported else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


# path -> labels as the usual set-ups give them
TARGETS = {
    "plain": {"namespace": "a", "pod": "chat-0"},
    "other": {"namespace": "b", "pod": "chat-0"},
    "exported": {
        "namespace": "monitoring",
        "pod": "prometheus-0",
        "exported_namespace": "a",
        "exported_pod": "chat-1",
    },
    "old": {"kubernetes_namespace": "a", "kubernetes_pod_name": "chat-2"},
    "bare": {"instance": "10.9.9.9:8000"},
}


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    made = Exporter()
    for number, path in enumerate(TARGETS, 1):
        made.pods[path] = Exported()
        made.pods[path].prefill(10 * number, tokens=100, seconds=0.2)
        made.pods[path].kv, made.pods[path].blocks = 0.1 * number, 1000 * number
    yield made
    made.close()


@pytest.fixture(scope="module")
def prometheus(exporter: Exporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    lines = ["global: {scrape_interval: 500ms}", "scrape_configs:"]
    for path, labels in TARGETS.items():
        given = ", ".join(f"{name}: '{value}'" for name, value in labels.items())
        lines.append(
            f"- {{job_name: {path}, metrics_path: /{path}, honor_labels: true,"
            f" static_configs: [{{targets: ['127.0.0.1:{exporter.port}'], labels: {{{given}}}}}]}}"
        )
    with started(folder, "\n".join(lines) + "\n") as prometheus:
        _wait_until_scraped(prometheus)
        yield prometheus.url


def _wait_until_scraped(prometheus: Running) -> None:
    source = PrometheusSource(prometheus.url, timeout_seconds=5)
    for _ in range(200):
        prometheus.assert_alive()
        found = asyncio.run(_one(source, service("a", "chat-0", "chat-1", "chat-2"), service("b", "chat-0")))
        if all(len(s.pods) == len(svc_pods) for s, svc_pods in zip(found, ("012", "0"), strict=True)):
            return
        time.sleep(0.1)
    raise AssertionError("Prometheus has not scraped all targets: " + prometheus.log.read_text())


async def _one(source: PrometheusSource, *services: Service):  # type: ignore[no-untyped-def]
    found = await source.sample(services, time.time())
    return [found[service.key] for service in services]


def service(namespace: str, *pods: str, ip: str | None = None, name: str = "chat") -> Service:
    made = tuple(Pod(namespace, pod, f"{namespace}/{pod}", ip, names.PREFILL, True, 0.0, 0.0) for pod in pods)
    return Service(namespace, name, "u", 1, "Auto", False, True, None, {}, made)


@needs_prometheus
async def test_each_pod_is_found_by_whatever_labels_it_has(prometheus: str) -> None:
    source = PrometheusSource(prometheus)
    a, b = await _one(source, service("a", "chat-0", "chat-1", "chat-2"), service("b", "chat-0"))
    finished = {uid: reading.counters["finished_total"] for uid, reading in (a.pods | b.pods).items()}
    assert finished == {"a/chat-0": 10, "b/chat-0": 20, "a/chat-1": 30, "a/chat-2": 40}


@needs_prometheus
async def test_a_pod_without_any_label_is_found_by_its_address(prometheus: str) -> None:
    (found,) = await _one(PrometheusSource(prometheus), service("a", "elsewhere", ip="10.9.9.9"))
    assert found.pods["a/elsewhere"].counters["finished_total"] == 50


@needs_prometheus
async def test_a_reading_is_the_same_as_from_the_pod_itself(prometheus: str, exporter: Exporter) -> None:
    (found,) = await _one(PrometheusSource(prometheus), service("a", "chat-0"))
    reading = found.pods["a/chat-0"]
    direct = parse(exporter.pods["plain"].text(), uid="a/chat-0", read_at_seconds=reading.read_at_seconds)
    assert reading == direct


@needs_prometheus
async def test_the_time_of_the_scrape_is_told_and_not_that_of_the_query(
    prometheus: str, exporter: Exporter
) -> None:
    source = PrometheusSource(prometheus)
    (before,) = await _one(source, service("a", "chat-0"))
    gone = exporter.pods.pop("plain")
    try:
        for _ in range(100):
            (found,) = await _one(source, service("a", "chat-0"))
            if not found.pods:
                break
            # Whatever it still shows is not newer than the last scrape that succeeded.
            assert found.pods["a/chat-0"].read_at_seconds <= time.time() + 0.5
            await asyncio.sleep(0.1)
        assert found.silent, "a failed scrape makes the series stale at once"
    finally:
        exporter.pods["plain"] = gone
    assert before.pods["a/chat-0"].read_at_seconds <= time.time() + 0.5


@needs_prometheus
async def test_no_matching_series_is_silence_and_no_error(prometheus: str) -> None:
    (found,) = await _one(PrometheusSource(prometheus), service("nowhere", "chat-0"))
    assert found.error is None and not found.pods
    assert found.silent == {"nowhere/chat-0": "Prometheus has no series of it"}


class Answering:
    """A Prometheus that knows one counter of each pod and writes down what it is asked."""

    def __init__(self, pods: list[Pod]) -> None:
        self.asked: list[dict[str, str]] = []
        named = [{"namespace": pod.namespace, "pod": pod.name} for pod in pods]
        plain = [
            {"metric": labels | {"__name__": "vllm:request_success_total"}, "value": [1e9, "40"]}
            for labels in named
        ]
        scraped = [{"metric": labels, "value": [1e9, "1000000000"]} for labels in named]
        self.answers = {"time()": [1e9 + 0.75, "1000000000.75"], QUERIES["plain"]: plain, SCRAPED_AT: scraped}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            while (await reader.readline()).strip():
                pass
            asked = dict(parse_qsl(urlsplit(line.decode().split()[1]).query))
            self.asked.append(asked)
            result = self.answers.get(asked["query"], [])
            body = json.dumps({"status": "success", "data": {"result": result}}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()


@pytest.mark.parametrize("services", [1, 1000])
async def test_the_number_of_queries_does_not_depend_on_the_number_of_services(
    services: int, serve: Serve
) -> None:
    """A21. Eight: the moment, the times of the scrapes, and six kinds of series; all for the same whole second."""
    fleet = [
        service(f"team-{n % 7}", f"chat-{n}-0", f"chat-{n}-1", name=f"chat-{n}") for n in range(services)
    ]
    answering = Answering([pod for one in fleet for pod in one.pods])
    url = await serve(answering)
    source = PrometheusSource(url, timeout_seconds=60)
    found = await _one(source, *fleet)
    assert [one.error for one in found] == [None] * services
    assert all(len(one.pods) == 2 and not one.silent for one in found)
    assert len(answering.asked) == 8
    assert [asked.get("time") for asked in answering.asked] == [None] + ["1000000000"] * 7
    assert len({asked["query"] for asked in answering.asked}) == 8
    await source.close()


def test_all_queries_together_have_less_time_than_a_tick() -> None:
    """A21: else a slow Prometheus would hold up every tick, and its answers be those of the tick before."""
    flags = parser().parse_args([])
    assert flags.prometheus_timeout < flags.tick


async def test_eight_slow_answers_share_one_deadline(serve: Serve) -> None:
    """Each comes within the deadline, all together do not: it is for all of them."""

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            await asyncio.sleep(0.3)
            body = b'{"status": "success", "data": {"result": ["0", "1000000000"]}}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()

    url = await serve(slow)
    source = PrometheusSource(url, timeout_seconds=0.8)
    begun = time.monotonic()
    (found,) = await _one(source, service("a", "chat-0"))
    assert time.monotonic() - begun < 2.0
    # Which of the two clocks, of all or of the one under way, strikes first is chance.
    assert found.error is not None
    assert "did not answer within 0.8s" in found.error or "timed out" in found.error
    await source.close()


async def test_an_unreachable_address_is_named_and_nothing_raises() -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    (found,) = await _one(PrometheusSource(url), service("a", "chat-0"))
    assert found.error is not None and url in found.error and "refused" in found.error.lower()
    assert not found.pods


async def test_a_hanging_prometheus_costs_the_deadline_once_and_does_not_pile_up(serve: Serve) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
        while True:  # a byte now and then defeats every timeout per read
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    url = await serve(hang)
    source = PrometheusSource(url, timeout_seconds=0.5)
    begun = time.monotonic()
    (first,) = await _one(source, service("a", "chat-0"))
    assert time.monotonic() - begun < 3 and first.error and "did not answer" in first.error
    begun = time.monotonic()
    (second,) = await _one(source, service("a", "chat-0"))
    assert time.monotonic() - begun < 0.4 and second.error
    await source.close()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [("401 Unauthorized", "no", "401"), ("503 Unavailable", "later", "503"),
     ("200 OK", "<html>", "answer that is none"), ("200 OK", '{"status":"success"}', "answer that is none")],
)  # fmt: skip
async def test_a_refusal_is_told_in_one_sentence(status: str, body: str, said: str, serve: Serve) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()

    url = await serve(answer)
    source = PrometheusSource(url)
    (found,) = await _one(source, service("a", "chat-0"))
    assert found.error is not None and said in found.error and "\n" not in found.error
    await source.close()


async def test_a_rotated_token_is_read_again(tmp_path: Path, serve: Serve) -> None:
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        seen.extend(re.findall(r"(?i)authorization: bearer (\S+)", head))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    url = await serve(answer)
    token = tmp_path / "token"
    source = PrometheusSource(url, token_file=token)
    for value in ("first", "second"):
        token.write_text(value + "\n")
        await _one(source, service("a", "chat-0"))
    assert seen == ["first", "second"]
    await source.close()


async def test_a_bad_ca_is_an_error_and_no_crash_and_does_not_matter_when_nothing_is_verified(
    tmp_path: Path,
) -> None:
    """A20."""
    placeholder = tmp_path / "ca.crt"
    placeholder.write_text("PUT YOUR CA HERE\n")
    (found,) = await _one(
        PrometheusSource("https://127.0.0.1:1", ca_file=placeholder), service("a", "chat-0")
    )
    assert found.error is not None and "holds no usable certificate" in found.error
    (skipped,) = await _one(
        PrometheusSource("https://127.0.0.1:1", ca_file=placeholder, verify=False), service("a", "chat-0")
    )
    assert skipped.error is not None and "cannot be reached" in skipped.error


@pytest.mark.parametrize("url", ["", "prometheus:9090", "ftp://x", "http://"])
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match="http://host:9090"):
        PrometheusSource(url)
