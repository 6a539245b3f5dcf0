"""Are the CRDs that the API server has those that this operator was made with? (field case D19)

An older schema drops new fields of the spec without a word, and server-side apply of a status with one new field is
refused whole (HTTP 500, "field not declared in schema"): no status at all would be written any more. So the operator
looks at start and at each resync, says what is missing, leaves those fields out and keeps running.

The schema is read where every client may read it, from the published OpenAPI document: no right to CRDs is needed.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tandem_api import names
from tandem_api.crd import inference_service_crd, worker_pool_crd
from tandem_api.kubernetes.cluster import ApiError, Manifest
from tandem_operator.plan.schema import outdated_sentence

_log = logging.getLogger(__name__)
Schema = Mapping[str, Any]


class Published(Protocol):
    """What serves the OpenAPI document."""

    async def openapi(self, group_version: str) -> Manifest: ...


def missing_fields(document: Schema) -> tuple[str, ...]:
    """Fields of our kinds, as ``Kind.path.of.field``, that the server's schema lacks. Empty when it has them all."""
    published = {
        gvk["kind"]: schema
        for schema in (document.get("components") or {}).get("schemas", {}).values()
        for gvk in schema.get("x-kubernetes-group-version-kind") or []
        if gvk.get("group") == names.GROUP
    }
    missing: list[str] = []
    for crd in (inference_service_crd(), worker_pool_crd()):
        kind = crd["spec"]["names"]["kind"]
        own = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        missing += (f"{kind}.{path}" for path in _missing(own, published.get(kind) or {}))
    return tuple(missing)


def _missing(own: Schema, theirs: Schema) -> Iterator[str]:
    """Only names: what a field may hold is the server's to say, and it says so when it refuses."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    found = theirs.get("properties") or {}
    for name, schema in sorted((own.get("properties") or {}).items()):
        if name in ("apiVersion", "kind", "metadata"):
            continue
        if name not in found:
            yield name
            continue
        yield from (f"{name}.{path}" for path in _missing(schema, found[name]))
    for nested in ("items", "additionalProperties"):
        if isinstance(own.get(nested), Mapping) and isinstance(theirs.get(nested), Mapping):
            yield from (f"*.{path}" for path in _missing(own[nested], theirs[nested]))


class SchemaWatch:
    """What is known of the server's schema: `missing` are the fields that it lacks, none before the first look."""

    def __init__(self, server: Published) -> None:
        self._server = server
        self.missing: tuple[str, ...] = ()

    async def look(self) -> bool:
        """Ask once; True when the answer is another than before. A server that does not say leaves what is known."""
        try:
            document = await self._server.openapi(names.API_VERSION)
        except ApiError as error:
            _log.info("the published schema cannot be read: %s", error)
            return False
        missing = missing_fields(document)
        changed, self.missing = missing != self.missing, missing
        if missing and changed:
            _log.error("%s", outdated_sentence(missing))
        elif changed:
            _log.info("the cluster's CRDs are up to date now")
        return changed
