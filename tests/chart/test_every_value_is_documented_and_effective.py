"""Every key of values.yaml has a comment, is in the schema and changes what is rendered (issue 7; KServe's and OME's
users found values that nobody read: kserve#5412, #5505)."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.chart import ALL_KINDS, CHART, text

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
PROMETHEUS = {"autoscaler": {"source": "prometheus"}, "prometheus": {"url": "http://p:9090"}}
WITH_TOKEN = {**PROMETHEUS, "prometheus": {"url": "http://p", "tokenSecret": {"name": "reader"}}}
WITH_CA = {**PROMETHEUS, "prometheus": {"url": "http://p", "caSecret": {"name": "ca"}}}
DASHBOARDS = {"monitoring": {"dashboards": {"enabled": True}}}
SECRET = [{"name": "key"}]

# path -> another value, and what else must be set for it to matter
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "global.imageRegistry": ("mirror:5000", {}),
    "global.imagePullSecrets": (SECRET, {}),
    "nameOverride": ("other", {}),
    "fullnameOverride": ("other", {}),
    "image.repository": ("mine/control-plane", {}),
    "image.tag": ("v2", {}),
    "image.digest": ("sha256:" + "a" * 64, {}),
    "image.pullPolicy": ("Always", {}),
    "imagePullSecrets": (SECRET, {}),
    "worker.image.repository": ("mine/worker", {}),
    "worker.sglangImage.repository": ("mine/worker", {}),
    "worker.image.tag": ("v2", {}),
    "worker.sglangImage.tag": ("v2", {}),
    "worker.image.digest": ("sha256:" + "b" * 64, {}),
    "worker.sglangImage.digest": ("sha256:" + "b" * 64, {}),
    "router.image.repository": ("mine/router", {}),
    "router.image.tag": ("v2", {}),
    "router.image.digest": ("sha256:" + "c" * 64, {}),
    "workloads.imagePullPolicy": ("Never", {}),
    "workloads.imagePullSecrets": (SECRET, {}),
    "namespaced": (True, {}),
    "crds.install": (False, {}),
    "crds.keep": (False, {}),
    "userRoles.create": (False, {}),
    "userRoles.aggregate": (False, {}),
    "userRoles.diagnoseWith": ("edit", {}),
    "operator.replicas": (2, {}),
    "operator.workers": (16, {}),
    "operator.resyncSeconds": (60, {}),
    "operator.logLevel": ("debug", {}),
    "operator.extraArgs": (["--port=8082"], {}),
    "operator.extraEnv": ([{"name": "A", "value": "b"}], {}),
    "operator.resources.requests": ({"cpu": "1"}, {}),
    "operator.resources.limits": ({"memory": "1Gi"}, {}),
    "autoscaler.enabled": (False, {}),
    "autoscaler.replicas": (2, {}),
    "autoscaler.tickSeconds": (10, {}),
    "autoscaler.source": ("prometheus", {"prometheus": {"url": "http://p:9090"}}),
    "autoscaler.scrapeTimeoutSeconds": (1, {}),
    "autoscaler.gpuBudget": (64, {}),
    "autoscaler.logLevel": ("debug", {}),
    "autoscaler.dashboard.enabled": (True, {}),
    "autoscaler.dashboard.port": (9000, {"autoscaler": {"dashboard": {"enabled": True}}}),
    "autoscaler.extraArgs": (["--young-seconds=60"], {}),
    "autoscaler.extraEnv": ([{"name": "A", "value": "b"}], {}),
    "autoscaler.resources.requests": ({"cpu": "1"}, {}),
    "autoscaler.resources.limits": ({"memory": "1Gi"}, {}),
    "prometheus.url": ("http://other:9090", PROMETHEUS),
    "prometheus.timeoutSeconds": (8, PROMETHEUS),
    "prometheus.tokenSecret.name": ("reader", PROMETHEUS),
    "prometheus.tokenSecret.key": ("bearer", WITH_TOKEN),
    "prometheus.caSecret.name": ("ca", PROMETHEUS),
    "prometheus.caSecret.key": ("tls.crt", WITH_CA),
    "prometheus.insecureSkipVerify": (True, PROMETHEUS),
    "monitoring.podMonitors.enabled": (False, {}),
    "monitoring.podMonitors.interval": ("30s", {}),
    "monitoring.podMonitors.scrapeTimeout": ("5s", {}),
    "monitoring.podMonitors.labels": ({"release": "prometheus"}, {}),
    "monitoring.rules.enabled": (False, {}),
    "monitoring.rules.labels": ({"release": "prometheus"}, {}),
    "monitoring.rules.runbookURL": ("https://example.com/runbooks", {}),
    "monitoring.dashboards.enabled": (True, {}),
    "monitoring.dashboards.labels": ({"mine": "1"}, DASHBOARDS),
    "monitoring.dashboards.annotations": ({"grafana_folder": "Tandem"}, DASHBOARDS),
    "monitoring.dashboards.instanceSelector": ({"matchLabels": {"a": "b"}}, DASHBOARDS),
    "serviceAccount.create": (False, {}),
    "serviceAccount.operatorName": ("op", {}),
    "serviceAccount.autoscalerName": ("as", {}),
    "serviceAccount.annotations": ({"a": "b"}, {}),
    "podAnnotations": ({"a": "b"}, {}),
    "podLabels": ({"a": "b"}, {}),
    "podSecurityContext": ({"runAsUser": 1000}, {}),
    "containerSecurityContext": ({"readOnlyRootFilesystem": False}, {}),
    "nodeSelector": ({"a": "b"}, {}),
    "tolerations": ([{"operator": "Exists"}], {}),
    "affinity": ({"podAntiAffinity": {}}, {}),
    "topologySpreadConstraints": ([{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}], {}),
    "priorityClassName": ("system-cluster-critical", {}),
}  # fmt: skip


def schema_of(node: dict[str, Any]) -> dict[str, Any]:
    """The node, its reference followed."""
    while "$ref" in node:
        found: Any = SCHEMA
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def keys(values: dict[str, Any], schema: dict[str, Any], above: str = "") -> Iterator[str]:
    """Paths of the keys that a user sets: where the schema knows no keys below."""
    for key, value in values.items():
        known = schema_of(schema)["properties"]
        assert key in known, f"{above}{key} is not in values.schema.json"
        if "properties" in schema_of(known[key]):
            yield from keys(value, known[key], f"{above}{key}.")
        else:
            yield f"{above}{key}"


KEYS = list(keys(VALUES, SCHEMA))


def nested(path: str, value: Any, around: dict[str, Any]) -> dict[str, Any]:
    """`around` with one more value; nothing of it is changed in place."""
    head, _, rest = path.partition(".")
    below = around.get(head, {})
    return {**around, head: nested(rest, value, below) if rest else value}


def default(path: str) -> Any:
    found: Any = VALUES
    for part in path.split("."):
        found = found[part]
    return found


def test_this_test_knows_every_key() -> None:
    assert sorted(CHANGES) == sorted(KEYS)


@pytest.mark.parametrize("path", KEYS)
def test_a_key_changes_what_is_rendered(path: str) -> None:
    value, around = CHANGES[path]
    assert value != default(path)
    assert text(around, kinds=ALL_KINDS) != text(nested(path, value, around), kinds=ALL_KINDS)


def test_the_schema_knows_no_key_that_values_yaml_does_not_show() -> None:
    def paths(node: dict[str, Any], above: str = "") -> Iterator[str]:
        for key, child in schema_of(node).get("properties", {}).items():
            yield from (
                paths(child, f"{above}{key}.") if "properties" in schema_of(child) else [f"{above}{key}"]
            )

    # `claims` of resources is Kubernetes' own and has no default to show.
    shown = {*KEYS, "operator.resources.claims", "autoscaler.resources.claims"}
    assert set(paths(SCHEMA)) == shown


def test_the_schema_is_open_in_global_alone() -> None:
    def closed(node: dict[str, Any], above: str = "") -> Iterator[str]:
        node = schema_of(node)
        if "properties" in node:
            if node.get("additionalProperties") is not False:
                yield above
            for key, child in node["properties"].items():
                yield from closed(child, f"{above}.{key}")

    assert list(closed(SCHEMA)) == [".global"]


def test_every_key_has_a_comment_right_above_it() -> None:
    bare = []
    path: list[tuple[int, str]] = []
    lines = (CHART / "values.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        found = re.match(r"^( *)([A-Za-z]+):", line)
        if not found:
            continue
        indent = len(found[1])
        path = [*(item for item in path if item[0] < indent), (indent, found[2])]
        name = ".".join(key for _, key in path)
        if name in KEYS and not re.match(rf"^ {{{indent}}}# \S", lines[number - 1]):
            bare.append(name)
    assert bare == []
