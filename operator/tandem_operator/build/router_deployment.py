"""The router, which finds the workers by their labels: vllm-router; between SGLang's prefill and decode sglang-router.

A pod whose labels stop matching leaves vllm-router's lists in the same second, which is what the drain relies on.
sglang-router is its ancestor and the only one that speaks SGLang's hand-over; it heeds no change of labels, so the
operator keeps its list (`plan/routing.py`). Flags as of vllm-router 0.1.17 and sglang-router 0.3.2 (`--help`).
"""

import math

from tandem_api import names
from tandem_api.durations import parse_seconds
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.kubernetes.cluster import DEPLOYMENT, Manifest
from tandem_operator.build.engines import engine_of
from tandem_operator.build.images import Images
from tandem_operator.build.ownership import child
from tandem_operator.build.pod_template import merge_template

# Its default of 60 s would keep sending to a dead worker for minutes (three failures).
_HEALTH_CHECK_SECONDS = 10
_STARTUP_CHECK_SECONDS = 5
# Discovery waits for each new worker's first answer, and meanwhile hears of nobody else (field case F2: by default
# 600 s). It meets only those that are Ready already, so one that is silent then may as well be met later.
_STARTUP_SECONDS = 15
# One request from its first byte to its last: long streams must not meet it (field case F7).
_REQUEST_TIMEOUT_SECONDS = 6 * 3600
# Endpoints learn of an ending pod within this; open streams have the drain deadline after it.
_PRE_STOP_SECONDS = 5


def router_labels(service: str) -> dict[str, str]:
    """What selects the router's pods. Immutable in a Deployment: never add to it (field case D6)."""
    return {names.LABEL_SERVICE: service, names.LABEL_COMPONENT: names.COMPONENT_ROUTER}


# The image's entry point is vllm-router.
_SGLANG_ROUTER = ["python3", "-m", "sglang_router.launch_router"]


def is_told(spec: InferenceServiceSpec) -> bool:
    """Does the router heed no change of labels, so that it must be told who comes back and who leaves?"""
    return spec.engine.type == "sglang" and spec.mode == "Disaggregated"


def router_args(*, namespace: str, service: str, spec: InferenceServiceSpec) -> list[str]:
    """The router's command line."""
    words = [
        "--host", "0.0.0.0",
        "--port", str(names.ROUTER_PORT),
        "--prometheus-host", "0.0.0.0",
        "--prometheus-port", str(names.ROUTER_METRICS_PORT),
        "--policy", spec.router.policy,
        "--health-check-interval-secs", str(_HEALTH_CHECK_SECONDS),
        *_health_path(spec),
        "--worker-startup-check-interval", str(_STARTUP_CHECK_SECONDS),
        "--worker-startup-timeout-secs", str(_STARTUP_SECONDS),
        "--request-timeout-secs", str(_REQUEST_TIMEOUT_SECONDS),
        "--service-discovery",
        "--service-discovery-namespace", namespace,
        "--service-discovery-port", str(names.ENGINE_PORT),
    ]  # fmt: skip
    if spec.mode == "Disaggregated":
        words += (
            ["--pd-disaggregation"]
            if is_told(spec)
            else ["--vllm-pd-disaggregation", "--kv-connector", "nixl"]
        )
        words += ["--prefill-selector", *_serving(service, names.PREFILL)]
        words += ["--decode-selector", *_serving(service, names.DECODE)]
    else:
        words += ["--selector", *_serving(service, names.WORKERS)]
    return words


def _health_path(spec: InferenceServiceSpec) -> list[str]:
    """Unsaid where it is the router's own default, so that an upgrade restarts no router."""
    path = engine_of(spec).health_path
    return [] if path == "/health" else ["--health-check-endpoint", path]


def serving_labels(service: str, role: str) -> dict[str, str]:
    """What selects the workers of a role that requests may be sent to."""
    return dict(sorted({**names.worker_labels(service, role), names.LABEL_SERVING: "true"}.items()))


def _serving(service: str, role: str) -> list[str]:
    return [f"{key}={value}" for key, value in serving_labels(service, role).items()]


def router_deployment(
    *, namespace: str, service: str, spec: InferenceServiceSpec, owner: Manifest, images: Images
) -> Manifest:
    """The Deployment `<service>-router`."""
    name = names.router_name(service)
    labels = names.managed_labels(service, names.COMPONENT_ROUTER)
    template = merge_template(
        _template(namespace=namespace, service=service, spec=spec, images=images), spec.router.template
    )
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = dict(sorted({**(metadata.get("labels") or {}), **labels}.items()))
    return child(
        DEPLOYMENT,
        namespace=namespace,
        service=service,
        name=name,
        component=names.COMPONENT_ROUTER,
        owner=owner,
        spec={
            "replicas": spec.router.replicas,
            "selector": {"matchLabels": dict(sorted(router_labels(service).items()))},
            # A router needs no GPU, so there is always room for the new one first.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template,
        },
    )


def _template(*, namespace: str, service: str, spec: InferenceServiceSpec, images: Images) -> Manifest:
    # /health answers as long as the router itself does, also without workers: then it says 503 to each request,
    # and counts it. /readiness would take the router out of its Service just then.
    health = {"path": "/health", "port": "http"}
    container: Manifest = {
        "name": names.ROUTER_CONTAINER,
        "image": images.router,
        **({"command": _SGLANG_ROUTER} if is_told(spec) else {}),
        "args": router_args(namespace=namespace, service=service, spec=spec),
        "ports": [
            {"name": "http", "containerPort": names.ROUTER_PORT},
            {"name": "metrics", "containerPort": names.ROUTER_METRICS_PORT},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
        "startupProbe": {"httpGet": health, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 120},
        "readinessProbe": {
            "httpGet": dict(health),
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": dict(health),
            "periodSeconds": 15,
            "timeoutSeconds": 5,
            "failureThreshold": 8,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if images.pull_policy:
        container["imagePullPolicy"] = images.pull_policy
    pod: Manifest = {
        "serviceAccountName": names.router_name(service),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(parse_seconds(spec.drain.deadline))
        + _PRE_STOP_SECONDS
        + 10,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if images.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in images.pull_secrets]
    return {"spec": pod}
