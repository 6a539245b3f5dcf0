"""Load as a Prometheus has seen it becomes requests like it; against a real Prometheus with an hour filled in."""

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.cli.main import main
from tandem_autoscaler.cli.replay import from_prometheus as module
from tandem_autoscaler.cli.replay.from_prometheus import Lengths, Minutes, from_prometheus, trace_of
from tandem_autoscaler.cli.replay.manifest import read
from tandem_autoscaler.fleet.service import Service
from tests.cli.manifests import chat, written
from tests.real_prometheus import MISSING, PROGRAM, started

FILLER = shutil.which("promtool")
needs_prometheus = pytest.mark.skipif(PROGRAM is None or FILLER is None, reason=MISSING)
PROMPTS = Lengths((100.0, 1000.0, float("inf")), (30.0, 60.0, 10.0))
OUTPUTS = Lengths((50.0, 200.0), (1.0, 1.0))


def random(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def minutes(requests: list[float], prompt: float = 800.0, output: float = 150.0) -> Minutes:
    rate = np.array(requests)
    return Minutes(rate, np.full(len(rate), prompt), np.full(len(rate), output))


# --- the arithmetic -----------------------------------------------------------------------------------------
def test_each_minute_has_its_rate_and_its_means() -> None:
    seen = Minutes(
        np.array([3000.0, 600.0, 6000.0]), np.array([400.0, 4000.0, 800.0]), np.array([150.0, 30.0, 300.0])
    )
    found = trace_of("x", seen, PROMPTS, OUTPUTS, random())
    assert found.duration_seconds == 180.0
    for minute in range(3):
        of = (found.arrival >= 60 * minute) & (found.arrival < 60 * (minute + 1))
        assert of.sum() == pytest.approx(seen.requests[minute], abs=4 * seen.requests[minute] ** 0.5)
        assert found.prompt[of].mean() == pytest.approx(seen.prompt_tokens[minute], rel=0.15)
        assert found.output[of].mean() == pytest.approx(seen.output_tokens[minute], rel=0.15)


def test_lengths_keep_the_histograms_shape() -> None:
    drawn = PROMPTS.draw(random(), 20_000)
    assert (drawn <= 100).mean() == pytest.approx(0.3, abs=0.02)
    assert ((drawn > 1000) & (drawn <= 2000)).mean() == pytest.approx(0.1, abs=0.02)


def test_a_minute_without_a_sample_is_like_its_neighbours_and_a_note_says_so() -> None:
    found = trace_of("x", minutes([600.0, 600.0, np.nan, 600.0, 600.0]), PROMPTS, OUTPUTS, random())
    unknown = (found.arrival >= 120) & (found.arrival < 180)
    assert 500 < unknown.sum() < 700
    assert "1 minutes without a sample" in found.note


def test_an_idle_minute_stays_idle() -> None:
    found = trace_of("x", minutes([600.0, 0.0, 600.0]), PROMPTS, OUTPUTS, random())
    assert not ((found.arrival >= 60) & (found.arrival < 120)).any()


@pytest.mark.parametrize(
    ("requests", "said"), [([60.0, np.nan, np.nan], "2 of 3 minutes"), ([0.0, 0.0], "no request within")]
)
def test_too_little_is_no_trace(requests: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trace_of("x", minutes(requests), PROMPTS, OUTPUTS, random())


@given(
    st.lists(
        st.one_of(st.just(float("nan")), st.floats(0, 300, allow_subnormal=False)), min_size=2, max_size=8
    ),
    st.floats(0.01, 1e5),
    st.lists(st.floats(0, 1e6), min_size=3, max_size=3),
)
def test_whatever_was_seen_makes_a_trace_or_a_sentence(
    requests: list[float], mean: float, counts: list[float]
) -> None:
    """`Trace` itself refuses what the simulator could not run."""
    try:
        found = trace_of(
            "x", minutes(requests, mean, mean), Lengths(PROMPTS.edges, tuple(counts)), OUTPUTS, random()
        )
    except ValueError as error:
        assert "\n" not in str(error) and str(error).startswith("x: ")
        assert not np.nan_to_num(requests).any() or np.isnan(requests).mean() > 0.2
    else:
        assert found.prompt.min(initial=1) >= 1


# --- a real one ---------------------------------------------------------------------------------------------
SCRAPE_SECONDS = 15
LENGTH = 30 * 60
# Requests per second in the first and the second half; a prefill and a decode worker, 700 prompt and 90 output tokens.
RATES = (4.0, 12.0)


Pods = dict[tuple[str, str], tuple[float, tuple[float, ...]]]
"""(namespace, pod) -> the tokens of each request, and the cumulative shares of its buckets"""
EDGES = {
    "tandem:prompt_tokens": ("500.0", "1000.0", "+Inf"),
    "vllm:request_prompt_tokens": ("500.0", "1000.0", "+Inf"),
    "vllm:request_generation_tokens": ("1.0", "100.0", "+Inf"),
}
ONE, MIDDLE = (1.0, 1.0, 1.0), (0.0, 1.0, 1.0)
# `chat-0` computes prompts and `chat-1` answers; the others are another service's, or engines without Tandem.
SEEN: dict[str, Pods] = {
    "tandem:prompt_tokens": {("a", "chat-0"): (700.0, (0.25, 1.0, 1.0)), ("b", "chat-0"): (9.0, ONE)},
    "vllm:request_prompt_tokens": {("a", "chat-1"): (700.0, MIDDLE), ("c", "vllm-7f4"): (300.0, ONE)},
    "vllm:request_generation_tokens": {
        ("a", "chat-0"): (1.0, ONE),
        ("a", "chat-1"): (90.0, (0.0, 0.6, 1.0)),
        ("a", "other-1"): (5.0, MIDDLE),
        ("c", "vllm-7f4"): (40.0, MIDDLE),
    },
}


def exposition(end: int) -> str:
    """OpenMetrics of all these pods, scraped until `end`."""
    lines: list[str] = []
    for name, pods in SEEN.items():
        lines.append(f"# TYPE {name} histogram")
        for (namespace, pod), (tokens, shares) in pods.items():
            count = 0.0
            labels = f'namespace="{namespace}",pod="{pod}"'
            for at in range(end - LENGTH - 300, end + 1, SCRAPE_SECONDS):
                for edge, share in zip(EDGES[name], shares, strict=True):
                    lines.append(f'{name}_bucket{{{labels},le="{edge}"}} {share * count} {at}')
                lines.append(f"{name}_sum{{{labels}}} {tokens * count} {at}")
                lines.append(f"{name}_count{{{labels}}} {count} {at}")
                count += SCRAPE_SECONDS * RATES[at >= end - LENGTH / 2]
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def end() -> int:
    return int(time.time()) // 60 * 60 - 3600


@pytest.fixture(scope="module")
def prometheus(end: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "seen.txt").write_text(exposition(end))
    filled = [FILLER or "", "tsdb", "create-blocks-from", "openmetrics", "seen.txt", "data"]
    subprocess.run(filled, cwd=folder, check=True, capture_output=True, timeout=60)
    with started(folder, "scrape_configs: []\n") as running:
        address = urlsplit(running.url)
        for _ in range(200):
            running.assert_alive()
            with socket.socket() as probe:
                there = probe.connect_ex((address.hostname, address.port)) == 0
            if there and "ready to receive" in running.log.read_text():
                break
            time.sleep(0.1)
        yield running.url


@pytest.fixture
def service(tmp_path: Path) -> Service:
    manifest = chat()
    manifest["metadata"]["namespace"] = "a"
    return read(written(tmp_path, manifest)).service


@needs_prometheus
def test_rates_and_lengths_are_those_of_the_services_own_pods(
    prometheus: str, end: int, service: Service
) -> None:
    """The prefill worker's one token per request is no answer, and other pods are not ours."""
    moment = quote(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)))
    found = from_prometheus(f"{prometheus}?range=30m&end={moment}", service, random())
    first = found.arrival < LENGTH / 2
    assert first.sum() == pytest.approx(RATES[0] * LENGTH / 2, rel=0.06)
    assert (~first).sum() == pytest.approx(RATES[1] * LENGTH / 2, rel=0.06)
    assert found.prompt.mean() == pytest.approx(700, rel=0.03)
    assert found.output.mean() == pytest.approx(90, rel=0.03)


@needs_prometheus
def test_a_replay_of_it_needs_nothing_else(
    prometheus: str, end: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end))
    trace = f"prometheus:{prometheus}?range=10m&end={moment}&namespace=a"
    arguments = [
        "replay",
        "-f",
        written(tmp_path, chat()),
        "--trace",
        trace,
        "--policies",
        "static",
        "-o",
        "json",
    ]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trace"]["requests"] == pytest.approx(600 * RATES[1], rel=0.06)


@needs_prometheus
def test_engines_without_tandem_are_found_by_a_selector_and_counted_where_they_finish(
    prometheus: str, end: int, service: Service
) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end))
    match = quote('namespace="c"')
    found = from_prometheus(f"{prometheus}?range=10m&end={moment}&match={match}", service, random())
    assert len(found) == pytest.approx(600 * RATES[1], rel=0.06)
    assert found.prompt.mean() == pytest.approx(300, rel=0.03)
    assert found.output.mean() == pytest.approx(40, rel=0.03)


@needs_prometheus
def test_a_service_that_it_never_saw_is_a_sentence(prometheus: str, end: int, service: Service) -> None:
    with pytest.raises(ValueError, match="in namespace nowhere"):
        from_prometheus(f"{prometheus}?range=10m&namespace=nowhere", service, random())


@needs_prometheus
def test_a_selector_that_is_none_is_refused_in_one_line(prometheus: str, service: Service) -> None:
    with pytest.raises(ValueError, match="refused") as raised:
        from_prometheus(f"{prometheus}?match={quote('job=')}", service, random())
    assert "\n" not in str(raised.value)


# --- one that misbehaves ------------------------------------------------------------------------------------
class _Trickle(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "99999")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        """Quiet."""


class _Page(_Trickle):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), request.param)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    # shutdown() would wait for a handler that trickles; it ends with its client.
    server.socket.close()


@pytest.mark.parametrize("serve", [_Trickle], indirect=True)
def test_one_that_trickles_bytes_does_not_hold_the_program_up(
    serve: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.5)
    begun = time.monotonic()
    with pytest.raises(ValueError, match="did not answer within"):
        from_prometheus(serve, service, random())
    assert time.monotonic() - begun < 3.0


@pytest.mark.parametrize("serve", [_Page], indirect=True)
def test_one_that_is_no_prometheus_is_a_sentence(serve: str, service: Service) -> None:
    with pytest.raises(ValueError, match="answer that is none"):
        from_prometheus(serve, service, random())
