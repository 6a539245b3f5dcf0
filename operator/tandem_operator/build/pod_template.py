"""Strategic merge of the user's partial pod template over a generated one.

Lists that Kubernetes keys are merged by key: containers and volumes by name, env by name (the user's entry
replaces ours whole, so that `value` and `valueFrom` never meet), mounts by path, ports by name. Every other
list, arguments above all, is replaced. A null removes.
"""

import copy
from collections.abc import Mapping
from typing import Any

from tandem_api.kubernetes.cluster import Manifest

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ports": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
}
# Entries of these lists are one thing each: merging two volume sources or two env sources makes neither.
_WHOLE = frozenset({"env", "volumes", "volumeMounts"})
_HANDLERS = frozenset({"httpGet", "exec", "tcpSocket", "grpc"})
_PROBES = frozenset({"startupProbe", "readinessProbe", "livenessProbe"})


def merge_template(generated: Manifest, template: Mapping[str, Any] | None) -> Manifest:
    """The generated pod template ({metadata, spec}) with the user's laid over it; neither is changed."""
    if not template:
        return copy.deepcopy(generated)
    return _merged(generated, template, path=())


def _merged(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, path: tuple[str, ...]) -> Manifest:
    result = {key: copy.deepcopy(value) for key, value in ours.items()}
    for key, value in theirs.items():
        if value is None:
            result.pop(key, None)
        elif key in _PROBES and isinstance(value, Mapping) and _HANDLERS & value.keys():
            # Another way of asking: two handlers in one probe are invalid.
            result[key] = copy.deepcopy(dict(value))
        elif key == "lifecycle":
            result[key] = {**result.get(key, {}), **copy.deepcopy(dict(value))}
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = _merged(result[key], value, path=(*path, key))
        elif key in _KEYS and isinstance(value, list):
            result[key] = _merged_list(result.get(key) or [], value, list_name=key, path=(*path, key))
        else:
            result[key] = copy.deepcopy(value)
    return result


def _merged_list(ours: list[Any], theirs: list[Any], *, list_name: str, path: tuple[str, ...]) -> list[Any]:
    key = _KEYS[list_name]
    result = copy.deepcopy(ours)
    places = {entry.get(key): index for index, entry in enumerate(result)}
    for entry in theirs:
        if not isinstance(entry, Mapping):
            result.append(entry)
            continue
        index = places.get(entry.get(key))
        if index is None:
            places[entry.get(key)] = len(result)
            result.append(copy.deepcopy(dict(entry)))
        elif list_name in _WHOLE:
            result[index] = copy.deepcopy(dict(entry))
        else:
            result[index] = _merged(result[index], entry, path=path)
    return result


def container(pod_spec: Mapping[str, Any], name: str) -> Manifest:
    """The container of that name; raises KeyError when there is none."""
    for entry in pod_spec.get("containers") or []:
        if entry.get("name") == name:
            return dict(entry)
    raise KeyError(name)


def drop_unused_volumes(pod_spec: Manifest, candidates: frozenset[str]) -> None:
    """Remove generated volumes that no container mounts any more, because the user mounted something else there."""
    used = {
        mount.get("name")
        for section in ("containers", "initContainers")
        for entry in pod_spec.get(section) or []
        for mount in entry.get("volumeMounts") or []
    }
    pod_spec["volumes"] = [
        volume
        for volume in pod_spec.get("volumes") or []
        if volume.get("name") not in candidates or volume.get("name") in used
    ]
