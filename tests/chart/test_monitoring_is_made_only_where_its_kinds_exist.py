"""Field case ome#425: an optional integration that is absent must not break the installation."""

import json
import re
from typing import Any

import pytest
import yaml

from e2e.scenarios.pod_monitors import scrape_config
from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.images import Images
from tandem_operator.build.router_deployment import router_deployment
from tests.chart.chart import (
    ALL_KINDS,
    CHART,
    GRAFANA_DASHBOARD,
    POD_MONITOR,
    PROMETHEUS_RULE,
    named,
    of_kind,
    rendered,
)
from tests.docs.pages import blocks

DASHBOARDS: dict[str, Any] = {"monitoring": {"dashboards": {"enabled": True}}}


def test_without_those_kinds_there_is_nothing_of_them() -> None:
    kinds = {one["kind"] for one in rendered(DASHBOARDS)}
    assert not kinds & {"PodMonitor", "PrometheusRule", "GrafanaDashboard", "ServiceMonitor"}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_each_kind_is_asked_for_by_itself(kind: str) -> None:
    made = {one["kind"] for one in rendered(DASHBOARDS, kinds=(kind,))}
    assert made & {name.rpartition("/")[2] for name in ALL_KINDS} == {kind.rpartition("/")[2]}


def test_pod_monitors_find_the_pods_that_the_operator_makes() -> None:
    monitors = {
        one["metadata"]["name"]: one["spec"] for one in of_kind(rendered(kinds=(POD_MONITOR,)), "PodMonitor")
    }
    worker = {
        **names.managed_labels("chat", names.COMPONENT_WORKER),
        **names.worker_labels("chat", names.DECODE),
    }
    assert monitors["tandem-workers"]["selector"]["matchLabels"].items() <= worker.items()
    assert monitors["tandem-workers"]["podMetricsEndpoints"][0]["port"] == names.ENGINE_PORT_NAME
    router = names.managed_labels("chat", names.COMPONENT_ROUTER)
    assert monitors["tandem-routers"]["selector"]["matchLabels"].items() <= router.items()
    spec = InferenceServiceSpec.model_validate(
        {"model": {"uri": "path:///m"}, "autoscaling": {"mode": "Off"}}
    )
    deployment = router_deployment(namespace="a", service="chat", spec=spec, owner={}, images=Images())
    ports = [port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]]
    assert monitors["tandem-routers"]["podMetricsEndpoints"][0]["port"] in ports
    follower = names.managed_labels("chat", names.COMPONENT_FOLLOWER)
    for spec_ in monitors.values():
        assert not spec_["selector"]["matchLabels"].items() <= follower.items()


def test_workers_series_carry_service_and_role() -> None:
    monitor = named(rendered(kinds=(POD_MONITOR,)), "PodMonitor", "tandem-workers")
    relabelings = monitor["spec"]["podMetricsEndpoints"][0]["relabelings"]
    # Prometheus writes the labels of a pod with underscores.
    expected = {
        "service": "__meta_kubernetes_pod_label_" + re.sub(r"[^a-zA-Z0-9]", "_", names.LABEL_SERVICE),
        "role": "__meta_kubernetes_pod_label_" + re.sub(r"[^a-zA-Z0-9]", "_", names.LABEL_ROLE),
    }
    assert {one["targetLabel"]: one["sourceLabels"][0] for one in relabelings} == expected


def test_the_control_plane_s_own_namespace_label_is_honoured() -> None:
    """Else `namespace` would be where the autoscaler runs, not where the service does."""
    monitor = named(rendered(kinds=(POD_MONITOR,)), "PodMonitor", "tandem-control-plane")["spec"]
    assert monitor["podMetricsEndpoints"][0]["honorLabels"] is True
    for component in ("operator", "autoscaler"):
        template = named(rendered(), "Deployment", f"tandem-{component}")["spec"]["template"]
        assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert component in monitor["selector"]["matchExpressions"][0]["values"]
        ports = [port["name"] for port in template["spec"]["containers"][0]["ports"]]
        assert monitor["podMetricsEndpoints"][0]["port"] in ports


def test_the_page_s_jobs_scrape_the_same_ports_under_the_same_labels() -> None:
    """docs/metrics.md, for those without the Prometheus Operator; `make e2e` runs what the PodMonitors come to."""
    (page,) = (block for block in blocks("yaml") if "scrape_configs:" in block.text)
    jobs = {job["job_name"]: job for job in yaml.safe_load(page.text)["scrape_configs"]}
    monitors = of_kind(rendered(kinds=(POD_MONITOR,)), "PodMonitor")
    assert jobs.keys() == {one["metadata"]["name"] for one in monitors}
    for one in monitors:
        job, made = jobs[one["metadata"]["name"]], scrape_config(one, "http://discovery")
        assert job.get("honor_labels", False) == made["honor_labels"]
        port = "__meta_kubernetes_pod_container_port_name"
        assert kept(job)[port] == kept(made)[port]
        if not job.get("honor_labels"):
            # `container` is the Prometheus Operator's own; nothing of ours asks for it.
            assert labelled(job) == labelled(made) - {("__meta_kubernetes_pod_container_name", "container")}


def kept(job: dict[str, Any]) -> dict[str, str]:
    """Source label -> what it must be."""
    rules = job["relabel_configs"]
    return {rule["source_labels"][0]: rule["regex"] for rule in rules if rule.get("action") == "keep"}


def labelled(job: dict[str, Any]) -> set[tuple[str, str]]:
    """(source label, label) of what series are given."""
    rules = job["relabel_configs"]
    return {(rule["source_labels"][0], rule["target_label"]) for rule in rules if "target_label" in rule}


def test_a_namespaced_release_monitors_its_namespace_only() -> None:
    for monitor in of_kind(rendered({"namespaced": True}, kinds=(POD_MONITOR,)), "PodMonitor"):
        assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["system"]}


def test_the_rule_is_the_file_with_the_runbooks_at_their_place() -> None:
    plain = yaml.safe_load((CHART / "files" / "prometheus" / "rules.yaml").read_text())
    assert of_kind(rendered(kinds=(PROMETHEUS_RULE,)), "PrometheusRule")[0]["spec"] == plain
    moved = rendered(
        {"monitoring": {"rules": {"runbookURL": "https://wiki/tandem"}}}, kinds=(PROMETHEUS_RULE,)
    )
    alerts = [
        rule
        for group in of_kind(moved, "PrometheusRule")[0]["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert alerts
    for rule in alerts:
        assert rule["annotations"]["runbook_url"] == f"https://wiki/tandem#{rule['alert'].lower()}"


def test_the_config_map_holds_the_dashboards_unchanged() -> None:
    documents = rendered(DASHBOARDS, kinds=(GRAFANA_DASHBOARD,))
    data = named(documents, "ConfigMap", "tandem-dashboards")["data"]
    assert sorted(data) == ["tandem-fleet.json", "tandem-service.json"]
    for key, text in data.items():
        file = CHART / "files" / "dashboards" / key.removeprefix("tandem-")
        assert json.loads(text) == json.loads(file.read_text())
    for dashboard in of_kind(documents, "GrafanaDashboard"):
        assert dashboard["spec"]["configMapRef"]["name"] == "tandem-dashboards"
        assert dashboard["spec"]["configMapRef"]["key"] in data
