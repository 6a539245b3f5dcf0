"""The metadata that every child but the worker pods carries."""

from tandem_api import names
from tandem_api.kubernetes.cluster import Kind, Manifest
from tandem_operator.build.canonical import digest


def child(
    kind: Kind,
    *,
    namespace: str,
    service: str,
    name: str,
    component: str,
    owner: Manifest,
    **body: Manifest | list[Manifest],
) -> Manifest:
    """A complete child; the hash of what we say of it stands in an annotation, so that a removal is seen too."""
    manifest: Manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(sorted(names.managed_labels(service, component).items())),
            "ownerReferences": [owner],
        },
        **body,
    }
    manifest["metadata"]["annotations"] = {names.ANNOTATION_MANIFEST_HASH: digest(manifest)}
    return manifest
