"""Manifests for the scenarios: small services on the simulated engine, in the real worker image."""

import copy
from typing import Any

_SIMULATED: dict[str, Any] = {
    "apiVersion": "tandem.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "quick"},
    "spec": {
        "model": {"uri": "path:///models/tiny-llama", "name": "tiny"},
        "engine": {"maxModelLen": 2048, "extraArgs": ["--simulate=cpu-tiny"]},
        "workers": {"minReplicas": 1, "maxReplicas": 4, "gpus": 1},
        "autoscaling": {"mode": "External"},
        "drain": {"deadline": "30s"},
    },
}


def simulated(name: str = "quick", **spec: Any) -> dict[str, Any]:
    """A Colocated service whose workers start in a second; `spec` replaces top-level fields."""
    manifest = copy.deepcopy(_SIMULATED)
    manifest["metadata"]["name"] = name
    manifest["spec"].update(spec)
    return manifest


def with_workers(manifest: dict[str, Any], **pool: Any) -> dict[str, Any]:
    """The manifest with fields of its pool replaced."""
    changed = copy.deepcopy(manifest)
    changed["spec"]["workers"].update(pool)
    return changed


def engine_container(**fields: Any) -> dict[str, Any]:
    """A pod template that overrides fields of the engine's container."""
    return {"spec": {"containers": [{"name": "engine", **fields}]}}
