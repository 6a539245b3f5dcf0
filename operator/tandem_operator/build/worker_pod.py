"""The worker pod: one engine on its GPUs, behind the gate where the image has it."""

import math
from typing import Any

from tandem_api import names
from tandem_api.durations import parse_seconds
from tandem_api.inference_service import InferenceServiceSpec, Role
from tandem_api.kubernetes.cluster import POD, Manifest
from tandem_operator.build.engine_args import MODEL_MOUNT, engine_args, model_place
from tandem_operator.build.images import Images
from tandem_operator.build.pod_template import drop_unused_volumes, merge_template
from tandem_operator.build.shutdown import ShutdownTimes, shutdown_times
from tandem_operator.build.template_hash import template_hash

_PROBE_PERIOD_SECONDS = 5
# A busy engine answers late (field case C4): a probe must not take that for death.
_PROBE_TIMEOUT_SECONDS = 10
_LIVENESS_PERIOD_SECONDS = 15
_LIVENESS_FAILURES = 12
_MINIMUM_STARTUP_SECONDS = 600
_SHM, _PODINFO, _MODEL = "tandem-shm", "tandem-podinfo", "tandem-model"


def worker_pod(
    *,
    namespace: str,
    service: str,
    spec: InferenceServiceSpec,
    role_name: str,
    ordinal: int,
    owner: Manifest,
    images: Images,
) -> Manifest:
    """The pod `<service>-<ordinal>`, complete; posted as it is and never edited, save for labels and annotations."""
    role = spec.roles[role_name]
    merged = worker_template(service=service, spec=spec, role=role, images=images)
    metadata = merged.get("metadata") or {}
    labels = {
        **(metadata.get("labels") or {}),
        **names.managed_labels(service, names.COMPONENT_WORKER),
        **names.worker_labels(service, role_name),
        names.LABEL_SERVING: "true",
        names.LABEL_TEMPLATE_HASH: template_hash(service, spec, role),
    }
    annotations = {**(metadata.get("annotations") or {}), **slo_annotations(spec)}
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "name": names.worker_name(service, ordinal),
            "namespace": namespace,
            "labels": dict(sorted(labels.items())),
            **({"annotations": dict(sorted(annotations.items()))} if annotations else {}),
            "ownerReferences": [owner],
        },
        "spec": merged["spec"],
    }


def slo_annotations(spec: InferenceServiceSpec) -> dict[str, str]:
    """The targets, for the worker's gate, which reads them from the pod and follows changes without a restart."""
    if spec.slo is None:
        return {}
    return {
        names.ANNOTATION_TTFT_TARGET: f"{spec.slo.ttft_seconds:g}",
        names.ANNOTATION_TPOT_TARGET: f"{spec.slo.tpot_seconds:g}",
    }


def worker_template(*, service: str, spec: InferenceServiceSpec, role: Role, images: Images) -> Manifest:
    """{metadata, spec} of a role's pods with the user's template merged in; without Tandem's own labels."""
    user_spec = (role.template or {}).get("spec") or {}
    times = shutdown_times(
        parse_seconds(spec.drain.deadline),
        user_grace_seconds=user_spec.get("terminationGracePeriodSeconds"),
    )
    place = model_place(spec.model.uri)
    volumes: list[Manifest] = [
        {"name": _SHM, "emptyDir": {"medium": "Memory"}},
        {
            "name": _PODINFO,
            "downwardAPI": {
                "items": [{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]
            },
        },
    ]
    if place.claim is not None:
        volumes.append(
            {"name": _MODEL, "persistentVolumeClaim": {"claimName": place.claim, "readOnly": True}}
        )
    generated: Manifest = {
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": times.grace_seconds,
            # Engines never talk to Kubernetes; a token in reach of model code would only be a risk.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [_engine(service, spec, role, images=images, times=times, claim=place.claim)],
            "volumes": volumes,
        }
    }
    if images.pull_secrets:
        generated["spec"]["imagePullSecrets"] = [{"name": name} for name in images.pull_secrets]
    merged = merge_template(generated, role.template)
    drop_unused_volumes(merged["spec"], frozenset({_SHM, _PODINFO, _MODEL}))
    return merged


def _engine(
    service: str,
    spec: InferenceServiceSpec,
    role: Role,
    *,
    images: Images,
    times: ShutdownTimes,
    claim: str | None,
) -> Manifest:
    mounts: list[Manifest] = [
        {"name": _SHM, "mountPath": "/dev/shm"},
        {"name": _PODINFO, "mountPath": names.PODINFO_PATH, "readOnly": True},
    ]
    if claim is not None:
        mounts.append({"name": _MODEL, "mountPath": MODEL_MOUNT, "readOnly": True})
    engine: Manifest = {
        "name": names.ENGINE_CONTAINER,
        "image": images.worker,
        "args": engine_args(service, spec, role, shutdown_timeout_seconds=times.engine_timeout_seconds),
        "env": _environment(spec, role),
        "ports": [{"name": names.ENGINE_PORT_NAME, "containerPort": names.ENGINE_PORT}],
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", times.pre_stop_script()]}}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # The worker's own last words, else the end of its log: that is what the condition quotes.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
        **_probes(parse_seconds(spec.engine.startup_timeout)),
    }
    if images.pull_policy:
        engine["imagePullPolicy"] = images.pull_policy
    if role.gpus > 0:
        engine["resources"] = {"limits": {role.gpu_resource: str(role.gpus)}}
    return engine


def _environment(spec: InferenceServiceSpec, role: Role) -> list[Manifest]:
    env: list[Manifest] = []
    if spec.model.token_secret:
        env.append(
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": spec.model.token_secret, "key": "token"}},
            }
        )
    if spec.mode == "Disaggregated":
        env += [
            # Never localhost: the peer on another node must reach it (field case E6).
            {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(names.NIXL_SIDE_CHANNEL_PORT)},
        ]
        if role.gpus == 0:
            env.append({"name": "UCX_TLS", "value": "tcp"})
    return env


def _probes(startup_timeout_seconds: float) -> dict[str, Any]:
    health = {"path": "/health", "port": names.ENGINE_PORT_NAME}
    startup = max(startup_timeout_seconds, _MINIMUM_STARTUP_SECONDS)
    return {
        "startupProbe": {
            "httpGet": health,
            "periodSeconds": _PROBE_PERIOD_SECONDS,
            "timeoutSeconds": _PROBE_TIMEOUT_SECONDS,
            "failureThreshold": math.ceil(startup / _PROBE_PERIOD_SECONDS),
        },
        "readinessProbe": {
            "httpGet": dict(health),
            "periodSeconds": _PROBE_PERIOD_SECONDS,
            "timeoutSeconds": _PROBE_TIMEOUT_SECONDS,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": dict(health),
            "periodSeconds": _LIVENESS_PERIOD_SECONDS,
            "timeoutSeconds": _PROBE_TIMEOUT_SECONDS,
            "failureThreshold": _LIVENESS_FAILURES,
        },
    }
