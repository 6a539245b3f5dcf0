"""The worker pod: one engine on its GPUs, behind the gate where the image has it. Or its pods, one per node."""

import math
from typing import Any

from tandem_api import names
from tandem_api.durations import parse_seconds
from tandem_api.inference_service import InferenceServiceSpec, Role
from tandem_api.kubernetes.cluster import POD, Manifest
from tandem_operator.build.engine_args import MODEL_MOUNT, engine_args, model_place
from tandem_operator.build.engines import engine_of
from tandem_operator.build.group import HOST_IP, Place, rank_labels
from tandem_operator.build.images import Images
from tandem_operator.build.node_loss import tolerate_node_loss
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


def worker_pods(
    *,
    namespace: str,
    service: str,
    spec: InferenceServiceSpec,
    role_name: str,
    ordinal: int,
    owner: Manifest,
    images: Images,
) -> tuple[Manifest, ...]:
    """All pods of the worker `<service>-<ordinal>` by rank, the leader first; mostly it is the only one.

    Complete; posted as they are and never edited, save for labels and annotations.
    """
    role, leader = spec.roles[role_name], names.worker_name(service, ordinal)
    places: list[Place | None] = [None]
    if role.nodes > 1:
        places = [Place(namespace, service, leader, rank, role.nodes) for rank in range(role.nodes)]
    return tuple(
        _pod(namespace, service, spec, role_name, leader, owner=owner, images=images, place=place)
        for place in places
    )


def _pod(
    namespace: str,
    service: str,
    spec: InferenceServiceSpec,
    role_name: str,
    leader: str,
    *,
    owner: Manifest,
    images: Images,
    place: Place | None,
) -> Manifest:
    role = spec.roles[role_name]
    merged = worker_template(service=service, spec=spec, role=role, images=images, place=place)
    metadata = merged.get("metadata") or {}
    serves = place is None or place.leads
    component = names.COMPONENT_WORKER if serves else names.COMPONENT_FOLLOWER
    labels = {
        **(metadata.get("labels") or {}),
        **names.managed_labels(service, component),
        names.LABEL_ROLE: role_name,
        **({names.LABEL_SERVING: "true"} if serves else {}),
        names.LABEL_TEMPLATE_HASH: template_hash(service, spec, role),
        **(rank_labels(place) if place else {}),
    }
    annotations = {
        **(metadata.get("annotations") or {}),
        **(slo_annotations(spec) if serves else {}),
        **engine_of(spec).annotations(spec, role),
    }
    if place:
        annotations[names.ANNOTATION_NODES] = str(place.nodes)
    if place and place.leads:
        merged["spec"] |= {"hostname": leader, "subdomain": names.leaders_name(service)}
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "name": place.pod_name if place else leader,
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


def worker_template(
    *, service: str, spec: InferenceServiceSpec, role: Role, images: Images, place: Place | None
) -> Manifest:
    """{metadata, spec} of a role's pods with the user's template merged in; without Tandem's own labels."""
    user_spec = (role.template or {}).get("spec") or {}
    times = shutdown_times(
        parse_seconds(spec.drain.deadline),
        user_grace_seconds=user_spec.get("terminationGracePeriodSeconds"),
    )
    model = model_place(spec.model.uri)
    volumes: list[Manifest] = [
        {"name": _SHM, "emptyDir": _shared_memory(role)},
        {
            "name": _PODINFO,
            "downwardAPI": {
                "items": [{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]
            },
        },
    ]
    if model.claim is not None:
        volumes.append(
            {"name": _MODEL, "persistentVolumeClaim": {"claimName": model.claim, "readOnly": True}}
        )
    generated: Manifest = {
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": times.grace_seconds,
            # Engines never talk to Kubernetes; a token in reach of model code would only be a risk.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                _engine(service, spec, role, images=images, times=times, claim=model.claim, place=place)
            ],
            "volumes": volumes,
        }
    }
    if images.pull_secrets:
        generated["spec"]["imagePullSecrets"] = [{"name": name} for name in images.pull_secrets]
    merged = merge_template(generated, role.template)
    if place is not None and not place.leads:
        _drop_probes(merged["spec"])
    tolerate_node_loss(merged["spec"])
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
    place: Place | None,
) -> Manifest:
    mounts: list[Manifest] = [
        {"name": _SHM, "mountPath": "/dev/shm"},
        {"name": _PODINFO, "mountPath": names.PODINFO_PATH, "readOnly": True},
    ]
    if claim is not None:
        mounts.append({"name": _MODEL, "mountPath": MODEL_MOUNT, "readOnly": True})
    kind = engine_of(spec)
    command = kind.command()
    engine: Manifest = {
        "name": names.ENGINE_CONTAINER,
        "image": kind.image(images),
        **({"command": command} if command is not None else {}),
        "args": engine_args(
            service, spec, role, shutdown_timeout_seconds=times.engine_timeout_seconds, place=place
        ),
        "env": _environment(spec, role, place),
        "ports": [{"name": names.ENGINE_PORT_NAME, "containerPort": names.ENGINE_PORT}],
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", times.pre_stop_script()]}}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # The worker's own last words, else the end of its log: that is what the condition quotes.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
        **_probes(kind.health_path, parse_seconds(spec.engine.startup_timeout)),
    }
    if place is not None and not place.leads:
        del engine["ports"]
        engine["lifecycle"] = {"preStop": {"exec": {"command": times.outlive(place.leader_address)}}}
    if images.pull_policy:
        engine["imagePullPolicy"] = images.pull_policy
    if role.gpus > 0:
        engine["resources"] = {"limits": {role.gpu_resource: str(role.gpus)}}
    return engine


def _shared_memory(role: Role) -> Manifest:
    """Engine processes pass tensors through it, and the default of 64 MB is too small (field case E8)."""
    return {"medium": "Memory", **({"sizeLimit": role.shm_size} if role.shm_size else {})}


def _environment(spec: InferenceServiceSpec, role: Role, place: Place | None) -> list[Manifest]:
    env: list[Manifest] = []
    if place is not None:
        env.append({"name": HOST_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    if spec.model.token_secret:
        env.append(
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": spec.model.token_secret, "key": "token"}},
            }
        )
    return env + engine_of(spec).environment(spec, role)


def _probes(path: str, startup_timeout_seconds: float) -> dict[str, Any]:
    health = {"path": path, "port": names.ENGINE_PORT_NAME}
    startup = max(startup_timeout_seconds, _MINIMUM_STARTUP_SECONDS)
    return {
        "startupProbe": {
            "httpGet": health,
            "periodSeconds": _PROBE_PERIOD_SECONDS,
            "timeoutSeconds": _PROBE_TIMEOUT_SECONDS,
            "failureThreshold": math.ceil(startup / _PROBE_PERIOD_SECONDS),
        },
        "readinessProbe": {
            # Asked so, our gate also refuses while the engine sleeps (field case C6); an image without it sees no more
            # than its health path.
            "httpGet": {**health, "path": f"{path}?ready"},
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


def _drop_probes(pod_spec: Manifest) -> None:
    """The user's too: they ask the engine's HTTP server, and a follower has none."""
    for container in pod_spec["containers"]:
        if container["name"] == names.ENGINE_CONTAINER:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                container.pop(probe, None)
