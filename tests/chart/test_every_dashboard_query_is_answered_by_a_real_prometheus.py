"""Dashboards and rules on a real Prometheus that scrapes operator, autoscaler and workers with the chart's labels.

Every query must parse and give at least one series: a metric that does not exist, or a label that nobody sets, fails.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import generate_latest

from tandem_worker.gate.measures import Measures, exposition
from tandem_worker.gate.targets import TargetsFile
from tests.autoscaler.exported import Exported
from tests.chart.chart import CHART
from tests.chart.control_plane import NAMESPACE, SERVICE, autoscaler_registry, operator_registry
from tests.real_prometheus import needs_prometheus, started

pytestmark = needs_prometheus
DASHBOARDS = {
    path.stem: json.loads(path.read_text()) for path in sorted((CHART / "files/dashboards").glob("*.json"))
}
RULES = CHART / "files" / "prometheus" / "rules.yaml"
# What Grafana fills in.
VARIABLES = {
    "$__rate_interval": "10s",
    # A minute's steps would find no full minute in the few seconds that the test's Prometheus lives.
    "$__range:1m": "60s:1s",
    "$namespace": NAMESPACE,
    "$service": SERVICE,
}


class Worker:
    """Engine and gate of one worker: of each ten requests, nine are within the targets (1 s, 100 ms)."""

    def __init__(self, role: str, folder: Path) -> None:
        self.role = role
        self.engine = Exported()
        annotations = folder / f"{role}-annotations"
        annotations.write_text('tandem.dev/ttft-target-seconds="1"\ntandem.dev/tpot-target-seconds="0.1"\n')
        self.gate = Measures(TargetsFile(annotations))

    def text(self) -> str:
        now = time.monotonic()
        for late in [False] * 9 + [True]:
            self.engine.prefill(1, tokens=100, seconds=3.0 if late else 0.3)
            self.engine.decode(1, tokens=20, seconds_per_token=0.3 if late else 0.03, batch=4)
            self.gate.observe_ttft(3.0 if late else 0.3, now)
            self.gate.observe_tpot(0.3 if late else 0.03, now, counted_by="usage")
        return self.engine.text() + exposition(self.gate.snapshot(now, gate_open=True)).decode()


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port on which each path is one pod's /metrics."""
    folder = tmp_path_factory.mktemp("workers")
    workers = {role: Worker(role, folder) for role in ("prefill", "decode")}
    operator, autoscaler = operator_registry(), autoscaler_registry()
    answers: dict[str, Callable[[], bytes]] = {
        "/operator": lambda: generate_latest(operator),
        "/autoscaler": lambda: generate_latest(autoscaler),
        **{f"/{role}": lambda worker=worker: worker.text().encode() for role, worker in workers.items()},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers[self.path]()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


class Prometheus:
    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def ready(self) -> bool:
        try:
            return self._http.get("/-/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def query(self, expr: str) -> list[dict[str, Any]]:
        answer = self._http.get("/api/v1/query", params={"query": expr}).json()
        assert answer["status"] == "success", f"{expr}: {answer.get('error')}"
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def names(self) -> set[str]:
        return set(self._http.get("/api/v1/label/__name__/values").json()["data"])


@pytest.fixture(scope="module")
def prometheus(targets: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    jobs = {"operator": {"pod": "o"}, "autoscaler": {"pod": "a"}}
    for role in ("prefill", "decode"):
        jobs[role] = {"namespace": NAMESPACE, "service": SERVICE, "role": role, "pod": role}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": job, "metrics_path": f"/{job}", "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{targets}"], "labels": labels}],
            }
            for job, labels in jobs.items()
        ],
    }  # fmt: skip
    with (
        started(folder, yaml.safe_dump(config)) as running,
        httpx.Client(base_url=running.url, trust_env=False, timeout=10) as http,
    ):
        found = Prometheus(http)
        deadline = time.monotonic() + 90
        # A rate needs two scrapes, a rule on it one more evaluation: attainment and requests of four windows, two
        # promises and two roles.
        while not (found.ready() and len(found.query('{__name__=~"role:tandem_.+"}')) == 2 * 4 * 2 * 2):
            running.assert_alive()
            assert time.monotonic() < deadline, running.log.read_text()
            time.sleep(0.5)
        yield found


def queries() -> Iterator[tuple[str, str]]:
    """(where, expression) of all panels, annotations and variables."""
    for name, dashboard in DASHBOARDS.items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield f"{name}: {panel['title']} {target['refId']}", target["expr"]
        for annotation in dashboard.get("annotations", {}).get("list", []):
            yield f"{name}: annotation {annotation['name']}", annotation["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                inside = re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])
                assert inside, variable["query"]
                yield f"{name}: variable {variable['name']}", inside[1]


def filled(expr: str) -> str:
    for variable, value in VARIABLES.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr, expr
    return expr


ALL = list(queries())


@pytest.mark.parametrize("where, expr", ALL, ids=[where for where, _ in ALL])
def test_a_query_gives_something(prometheus: Prometheus, where: str, expr: str) -> None:
    # Nothing is scaled while the test looks, so the annotation is asked for what lies behind its condition.
    expr = filled(expr).removesuffix(" > 0") if "annotation" in where else filled(expr)
    assert prometheus.query(expr), expr


def metric_names(expr: str) -> set[str]:
    """Tandem's, vLLM's and the router's metrics, and recorded series, that an expression names."""
    return set(re.findall(r"\b(?:(?:role|service):)?(?:tandem[_:]|vllm[_:])[a-z0-9_:]+", expr))


def test_rules_and_dashboards_name_only_metrics_that_exist(prometheus: Prometheus) -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    there = prometheus.names()
    asked = {where: metric_names(expr) for where, expr in ALL}
    asked |= {rule.get("alert") or rule["record"]: metric_names(rule["expr"]) for rule in rules}
    assert all(asked.values())
    assert {where: names - there for where, names in asked.items() if names - there} == {}
    # The other way round: what is recorded is used, by an alert or a panel.
    recorded = {rule["record"] for rule in rules if "record" in rule}
    used = set().union(*asked.values())
    assert recorded - used <= {f"role:tandem_requests:rate{window}" for window in ("5m", "30m")}


def test_attainment_is_exact(prometheus: Prometheus) -> None:
    for window in ("5m", "30m", "1h", "6h"):
        for promise in ("ttft", "tpot"):
            found = prometheus.query(f'role:tandem_attainment:ratio_rate{window}{{promise="{promise}"}}')
            assert {one["metric"]["role"] for one in found} == {"prefill", "decode"}
            for one in found:
                assert float(one["value"][1]) == pytest.approx(0.9), one


def test_the_autoscaler_s_namespace_is_the_service_s(prometheus: Prometheus) -> None:
    for one in prometheus.query("tandem_autoscaler_target_replicas"):
        assert (one["metric"]["namespace"], one["metric"]["service"]) == (NAMESPACE, SERVICE)
        assert not [label for label in one["metric"] if label.startswith("exported_")]
