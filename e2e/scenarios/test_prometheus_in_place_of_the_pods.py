"""The autoscaler reads a real Prometheus and nothing else, which scrapes real engines as the chart's PodMonitors say
and has the chart's rules.

Prompt-heavy load raises prefill and not decode; while Prometheus is away, what stands stays; with it, decisions come
back. What the autoscaler is told is what the pods export; attainment as the chart records it is what users felt.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from e2e.cluster.binaries import KUBERNETES_VERSION
from e2e.cluster.control_plane import free_ports
from e2e.cluster.network import NODE_ADDRESS
from e2e.demo.__main__ import MANIFEST
from e2e.demo.stage import CHART, NAMESPACE, RELEASE, Stage
from e2e.demo.story import PROMPT_HEAVY
from e2e.load import Answers, send
from e2e.scenarios.lasting import Lasting
from e2e.scenarios.pod_monitors import Discovery, scrape_config
from tandem_api import names
from tandem_api.durations import parse_seconds
from tandem_api.kubernetes.client import connect
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, POD, WORKER_POOL
from tandem_api.reasons import Condition, Reason
from tandem_autoscaler.decide.decision import Why
from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.signals.prometheus import PrometheusSource
from tandem_autoscaler.signals.scrape import ScrapeSource
from tandem_autoscaler.signals.source import PodReading, SignalSource, Snapshot
from tests.real_prometheus import PROGRAM, started

# Longer than `scaleDown.confirm` of the manifest.
OUTAGE_SECONDS = 45
FEWEST_REQUESTS = 60
# Shares: what the edges of a rule's window may take from it, and one request more or less.
TOLERANCE = 0.05
# What a client's clock shows of a first token besides the two workers' parts.
ROUTER_SECONDS = 0.1


@dataclass
class Monitored:
    """A Prometheus on this machine, where pods reach it; `stop` and `start` it as you like, its data stays."""

    folder: Path
    settings: dict[str, Any]
    port: int
    _running: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        return f"http://{NODE_ADDRESS}:{self.port}"

    def start(self) -> None:
        self._running.enter_context(
            started(self.folder, yaml.safe_dump(self.settings), address=NODE_ADDRESS, port=self.port)
        )

    def stop(self) -> None:
        self._running.close()

    def ask(self, path: str, **parameters: str) -> Any:
        """`data` of an answer of its API."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=10, trust_env=False).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def value(self, expression: str, **labels: str) -> float | None:
        """Of an expression with one series at most; None without any. `labels` go into its selector."""
        more = "".join(f',{key}="{value}"' for key, value in labels.items())
        found = self.ask("query", query=expression.replace("}", f"{more}}}"))["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


@pytest.fixture
def prometheus(stage: Stage, tmp_path: Path) -> Iterator[Monitored]:
    """It runs, and the autoscaler has it as its only source; afterwards the pods again."""
    if stage.current:
        pytest.skip("pods of a cluster elsewhere do not reach a Prometheus on this machine")
    assert PROGRAM is not None, "this needs a real Prometheus: apt-get install prometheus"
    # As on a cluster that knows those kinds, which this one need not.
    asked = [f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in ("PodMonitor", "PrometheusRule")]
    asked.append(f"--kube-version={KUBERNETES_VERSION}")
    rendered = stage.run("helm", "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *asked)
    objects = [one for one in yaml.safe_load_all(rendered) if one]
    (rule,) = (one for one in objects if one["kind"] == "PrometheusRule")
    monitors = [one for one in objects if one["kind"] == "PodMonitor"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    with Discovery(lambda: stage.read("get", "pods", "--all-namespaces")["items"]) as discovery:
        settings = {
            "global": {"evaluation_interval": "5s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [scrape_config(monitor, discovery.url) for monitor in monitors],
        }
        (port,) = free_ports(1)
        monitored = Monitored(tmp_path, settings, port)
        monitored.start()
        try:
            stage.install_chart(**{"autoscaler.source": "prometheus", "prometheus.url": monitored.url})
            yield monitored
        finally:
            monitored.stop()
            stage.install_chart()


@pytest.mark.timeout(1200)
async def test_it_decides_from_what_prometheus_tells(
    stage: Stage, prometheus: Monitored, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = yaml.safe_load(MANIFEST.read_text())
    os.environ["KUBECONFIG"] = stage.kubeconfig
    async with connect() as cluster:
        service = Lasting(stage, cluster, namespace, wish["metadata"]["name"], wish["spec"]["model"]["name"])
        await service.kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(wish))
        await service.settled(600, prefill=1, decode=1)
        await service.find_endpoint()
        await service.until(
            lambda: reason_of(service, Reason.METRICS_OK), 90, "Prometheus tells of the workers"
        )

        # One role grows, for the reason that the load gives.
        users, took = await under_load_until_it_grows(service)
        grown = {names.PREFILL: 2, names.DECODE: 1}
        assert await replicas(service) == grown

        # Prometheus goes: it says so, and what stands stays, although nobody asks for anything any more.
        prometheus.stop()
        await service.until(
            lambda: reason_of(service, Reason.PROMETHEUS_UNREACHABLE), 60, "the outage is told"
        )
        ends = time.monotonic() + OUTAGE_SECONDS
        while time.monotonic() < ends:
            assert await replicas(service) == grown
            await asyncio.sleep(2)
        story = await asyncio.to_thread(explain, stage, service)
        assert [one["role"] for one in story["history"] if one["to"] > one["from"]] == [names.PREFILL]
        blind = story["decisions"][names.PREFILL]
        assert blind["reason"] in (Why.STALE_DATA, Why.NO_DATA, Why.WAITING_FOR_DATA)

        # It comes back: what it tells is what the pods export, of every pod, and decisions rest on that.
        prometheus.start()
        back = await service.until(lambda: reason_of(service, Reason.METRICS_OK), 90, "it decides again")
        await service.until(
            lambda: told_as_exported(service, prometheus), 90, "Prometheus has the last scrape"
        )
        prefill = _labels(service, names.PREFILL)
        prompt = prometheus.value(
            f"sum(tandem:prompt_tokens_sum{prefill}) / sum(tandem:prompt_tokens_count{prefill})"
        )
        assert float(blind["numbers"]["promptTokens"]) == pytest.approx(prompt, rel=0.05)

        # Attainment as the chart's rule records it is what users felt.
        shares = await asyncio.to_thread(attainment, service, prometheus, users, wish["spec"]["slo"])
        assert rules_that_fail(prometheus) == []

        # And what nobody needs goes.
        shrunk = await service.until(lambda: is_at_rest(service), 240, "prefill comes back to 1")
    assert [answer.failure for answer in users.failures] == []
    with capsys.disabled():
        print(
            f"\nprefill 1 -> 2 after {took:.0f} s of {len(users.all)} requests; attainment by the rule and by users: "
            f"{shares}; decisions {back:.0f} s after the outage, and prefill 1 another {shrunk:.0f} s later"
        )


# --- the service ----------------------------------------------------------------------------------------------
async def under_load_until_it_grows(service: Lasting) -> tuple[Answers, float]:
    """What users felt of prompt-heavy load, which ends soon after prefill was raised; and seconds until then."""
    users, over = Answers(), asyncio.Event()
    load = asyncio.create_task(
        send(
            service.endpoint, service.model, PROMPT_HEAVY, until=over.is_set, answers=users, most_seconds=400
        )
    )

    async def has_grown() -> bool:
        return (await replicas(service))[names.PREFILL] > 1

    async def has_enough() -> bool:
        return users.sent >= FEWEST_REQUESTS

    try:
        took = await service.until(has_grown, 240, "prompt-heavy load raises prefill")
        await service.until(has_enough, 240, "the requests are sent")
    finally:
        over.set()
        await load
    return users, took


async def replicas(service: Lasting) -> dict[str, int]:
    """Each pool's target."""
    pools = await service.cluster.list(WORKER_POOL, namespace=service.namespace)
    return {pool["spec"]["role"]: pool["spec"]["replicas"] for pool in pools}


async def is_at_rest(service: Lasting) -> bool:
    return await replicas(service) == {names.PREFILL: 1, names.DECODE: 1}


async def reason_of(service: Lasting, reason: Reason) -> bool:
    """Is this the reason of ScalingActive?"""
    found = await service.cluster.get(INFERENCE_SERVICE, service.namespace, service.name)
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any(one["type"] == Condition.SCALING_ACTIVE and one["reason"] == reason for one in conditions)


def explain(stage: Stage, service: Lasting) -> dict[str, Any]:
    """`kubectl tandem explain -o json`."""
    command = [str(Path(sys.executable).parent / "kubectl-tandem"), "explain", service.name]
    done = subprocess.run(
        [*command, "--namespace", service.namespace, "--output", "json"],
        capture_output=True, text=True, env={**os.environ, "KUBECONFIG": stage.kubeconfig}, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- what is measured -----------------------------------------------------------------------------------------
async def told_as_exported(service: Lasting, prometheus: Monitored) -> bool:
    """Prometheus' readings of all pods are the pods' own, counter by counter, now that nobody asks for anything."""
    (seen,), broken = observe(
        *[
            await service.cluster.list(kind, namespace=service.namespace)
            for kind in (INFERENCE_SERVICE, WORKER_POOL, POD)
        ]
    )
    assert not broken
    sources: tuple[SignalSource, ...] = (PrometheusSource(prometheus.url), ScrapeSource())
    try:
        told, exported = [
            readings((await source.sample([seen], time.time()))[seen.key]) for source in sources
        ]
    finally:
        for source in sources:
            await source.close()
    ready = {pod.uid for pod in (*seen.pods, *seen.routers) if pod.ready}
    return ready <= told.keys() and told == exported


def readings(snapshot: Snapshot) -> dict[str, PodReading]:
    """Without when they were taken."""
    assert snapshot.error is None, snapshot.error
    return {uid: replace(reading, read_at_seconds=0.0) for uid, reading in snapshot.pods.items()}


def attainment(
    service: Lasting, prometheus: Monitored, users: Answers, slo: dict[str, Any]
) -> dict[str, tuple[float, float]]:
    """Promise -> share within the target by the chart's rule, and by the clients' clocks; they must agree."""
    found = {}
    for promise, role in (("ttft", names.PREFILL), ("tpot", names.DECODE)):
        labels, target = _labels(service, role), parse_seconds(slo[promise])
        counted = prometheus.value(f"sum(tandem:{promise}_seconds_count{labels})")
        assert counted == len(users.all), "each request is counted once"
        within = prometheus.value(f"sum(tandem:{promise}_seconds_bucket{labels})", le=f"{target:g}")
        recorded = prometheus.value(f"role:tandem_attainment:ratio_rate30m{labels}", promise=promise)
        assert counted and within is not None and recorded is not None
        assert recorded == pytest.approx(within / counted, abs=TOLERANCE), promise
        felt = [getattr(answer, f"{promise}_seconds") for answer in users.all]
        late = target
        if promise == "ttft":
            # Users also wait for the router and for decode's own part, which its tail bounds.
            tail = prometheus.value(
                f"histogram_quantile(0.95, sum by (le) (tandem:ttft_seconds_bucket{_labels(service, names.DECODE)}))"
            )
            assert tail is not None
            late += tail + ROUTER_SECONDS
        at_least, at_most = share_within(felt, target), share_within(felt, late)
        assert at_least - TOLERANCE <= recorded <= at_most + TOLERANCE, (promise, at_least, recorded, at_most)
        found[promise] = (round(recorded, 3), round(at_least, 3))
    return found


def share_within(seconds: list[float], limit_seconds: float) -> float:
    return sum(one <= limit_seconds for one in seconds) / len(seconds)


def rules_that_fail(prometheus: Monitored) -> list[str]:
    """Rules of the chart that Prometheus could not evaluate, and alerts of a part that has no leader."""
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert any(rule["type"] == "alerting" for rule in rules)
    failed = [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule["health"] != "ok"]
    return failed + [
        rule["name"] for rule in rules if "NoLeader" in rule["name"] and rule["state"] != "inactive"
    ]


def _labels(service: Lasting, role: str) -> str:
    """Of the series of one role's workers, as a selector that `Monitored.value` may add to."""
    return f'{{namespace="{service.namespace}",service="{service.name}",role="{role}"}}'
