"""What the Prometheus Operator and Kubernetes discovery do for PodMonitors, for a Prometheus that has neither.

Debian builds its Prometheus without Kubernetes discovery. `Discovery` answers over HTTP with the targets and labels
that `role: pod` gives (prometheus.io/docs, kubernetes_sd_config), and `scrape_config` makes of a PodMonitor what its
operator makes of it (prometheus-operator.dev, PodMetricsEndpoint). Which of those pods are scraped, and what their
series are called, is left to the PodMonitor and to Prometheus.
"""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from e2e.demo.stage import StageError

Manifest = dict[str, Any]
_META = "__meta_kubernetes_"


def targets(pods: Iterable[Manifest]) -> list[Manifest]:
    """One group per port that a container declares, of each pod that has an address."""
    groups = []
    for pod in pods:
        metadata, address = pod["metadata"], pod["status"].get("podIP")
        labels = {
            "namespace": metadata["namespace"], "pod_name": metadata["name"], "pod_uid": metadata["uid"],
            "pod_phase": pod["status"]["phase"], "pod_ip": address,
        }  # fmt: skip
        for key, value in metadata.get("labels", {}).items():
            labels |= {f"pod_label_{_plain(key)}": value, f"pod_labelpresent_{_plain(key)}": "true"}
        for container in pod["spec"]["containers"] if address else []:
            for port in container.get("ports", []):
                number = str(port["containerPort"])
                own = {
                    "pod_container_name": container["name"], "pod_container_port_name": port.get("name", ""),
                    "pod_container_port_number": number,
                }  # fmt: skip
                named = {f"{_META}{key}": value for key, value in (labels | own).items()}
                groups.append({"targets": [f"{address}:{number}"], "labels": named})
    return groups


def scrape_config(monitor: Manifest, discovery: str) -> Manifest:
    """Of a PodMonitor with one endpoint. `discovery`: the address of a `Discovery`."""
    spec, name = monitor["spec"], monitor["metadata"]["name"]
    (endpoint,) = spec["podMetricsEndpoints"]
    kept = {f"pod_label_{_plain(key)}": value for key, value in spec["selector"]["matchLabels"].items()}
    for expression in spec["selector"].get("matchExpressions", []):
        assert expression["operator"] == "In", f"{name}: {expression['operator']} is not understood here"
        kept[f"pod_label_{_plain(expression['key'])}"] = "|".join(expression["values"])
    if "matchNames" in spec["namespaceSelector"]:
        kept["namespace"] = "|".join(spec["namespaceSelector"]["matchNames"])
    kept["pod_container_port_name"] = endpoint["port"]
    relabelings = [
        {"source_labels": [f"{_META}{label}"], "regex": regex, "action": "keep"}
        for label, regex in kept.items()
    ]
    relabelings.append(
        {"source_labels": [f"{_META}pod_phase"], "regex": "(Failed|Succeeded)", "action": "drop"}
    )
    for label, source in (
        ("namespace", "namespace"),
        ("container", "pod_container_name"),
        ("pod", "pod_name"),
    ):
        relabelings.append({"source_labels": [f"{_META}{source}"], "target_label": label})
    relabelings += [
        {re.sub("[A-Z]", lambda big: f"_{big[0].lower()}", key): value for key, value in rule.items()}
        for rule in endpoint.get("relabelings", [])
    ]
    return {
        "job_name": f"podMonitor/{monitor['metadata']['namespace']}/{name}/0",
        "honor_labels": endpoint.get("honorLabels", False),
        "scrape_interval": endpoint["interval"],
        "scrape_timeout": endpoint["scrapeTimeout"],
        "http_sd_configs": [{"url": discovery, "refresh_interval": "5s"}],
        "relabel_configs": relabelings,
    }


class Discovery:
    """A context manager: `pods` is asked for the pods whenever Prometheus asks for targets at `url`."""

    def __init__(self, pods: Callable[[], Iterable[Manifest]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    status, body = 200, json.dumps(targets(pods())).encode()
                except StageError as error:
                    # Prometheus then keeps the targets that it knows.
                    status, body = 503, str(error).encode()
                # Prometheus may have been ended meanwhile.
                with contextlib.suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> "Discovery":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _plain(label: str) -> str:
    """A label's key as Prometheus writes it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", label)
