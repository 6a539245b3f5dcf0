"""The chart, rendered by the real helm."""

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import binaries

CHART = Path(__file__).parents[2] / "helm" / "tandem"
Manifest = dict[str, Any]
# Kinds of others for which the chart has something; given to helm as --api-versions where a test has them.
POD_MONITOR = "monitoring.coreos.com/v1/PodMonitor"
PROMETHEUS_RULE = "monitoring.coreos.com/v1/PrometheusRule"
GRAFANA_DASHBOARD = "grafana.integreatly.org/v1beta1/GrafanaDashboard"
ALL_KINDS = (POD_MONITOR, PROMETHEUS_RULE, GRAFANA_DASHBOARD)


def helm(
    *arguments: str, stdin: str | None = None, program: str = "helm"
) -> subprocess.CompletedProcess[str]:
    """Helm 3, or 4 (`program="helm4"`)."""
    path = str(binaries.ensure([program])[program])
    return subprocess.run([path, *arguments], input=stdin, capture_output=True, text=True, timeout=60)


def template(
    values: Manifest | None = None, *, kinds: tuple[str, ...] = (), program: str = "helm"
) -> subprocess.CompletedProcess[str]:
    """`helm template` of release `tandem` in namespace `system`."""
    versions = [part for kind in kinds for part in ("--api-versions", kind)]
    return helm(
        "template", "tandem", str(CHART), "-n", "system", "--kube-version", "1.34.0", *versions, "-f", "-",
        stdin=yaml.safe_dump(values or {}), program=program,
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def _text(values: str, kinds: tuple[str, ...]) -> str:
    done = template(json.loads(values), kinds=kinds)
    assert done.returncode == 0, done.stderr
    return done.stdout


def text(values: Manifest | None = None, *, kinds: tuple[str, ...] = ()) -> str:
    """The rendering as it stands; one that fails fails the test."""
    return _text(json.dumps(values or {}, sort_keys=True), kinds)


def rendered(values: Manifest | None = None, *, kinds: tuple[str, ...] = ()) -> list[Manifest]:
    """The objects."""
    # The C loader: the CRDs are a thousand lines, and there are hundreds of renderings.
    return [
        document for document in yaml.load_all(text(values, kinds=kinds), Loader=yaml.CSafeLoader) if document
    ]


def of_kind(documents: list[Manifest], kind: str) -> list[Manifest]:
    return [document for document in documents if document["kind"] == kind]


def named(documents: list[Manifest], kind: str, name: str) -> Manifest:
    return next(one for one in of_kind(documents, kind) if one["metadata"]["name"] == name)


def pod_of(documents: list[Manifest], component: str) -> Manifest:
    """The pod spec of a component's Deployment."""
    found: Manifest = named(documents, "Deployment", f"tandem-{component}")["spec"]["template"]["spec"]
    return found


def arguments_of(documents: list[Manifest], component: str) -> list[str]:
    found: list[str] = pod_of(documents, component)["containers"][0]["args"]
    return found


def pods(documents: list[Manifest]) -> list[tuple[str, Manifest]]:
    """(name, pod spec) of everything that becomes a pod."""
    found = [(one["metadata"]["name"], one["spec"]) for one in of_kind(documents, "Pod")]
    for one in of_kind(documents, "Deployment"):
        found.append((one["metadata"]["name"], one["spec"]["template"]["spec"]))
    return found
