"""Does the live object already say what we want to say? The server's defaults and others' additions do not count."""

from collections.abc import Mapping
from typing import Any

from tandem_api import names
from tandem_api.kubernetes.cluster import Manifest
from tandem_operator.observe.quantity import same_quantity


def says_all(live: Any, wanted: Any) -> bool:
    """True when everything in `wanted` stands in `live`. Lists must have the same length; {} and [] are nothing."""
    # By far the most frequent answer, and by far the cheapest question.
    if live == wanted:
        return True
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return not wanted and not live
        return all(says_all(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        theirs = live if isinstance(live, list) else []
        return len(theirs) == len(wanted) and all(map(says_all, theirs, wanted))
    if wanted is None:
        return live is None
    return same_quantity(live, wanted)


def up_to_date(live: Manifest, wanted: Manifest) -> bool:
    """The hash tells that we took something out since; the content tells that another hand changed what is ours."""
    return _hash(live) == _hash(wanted) and says_all(live, wanted)


def _hash(manifest: Manifest) -> str | None:
    annotations = manifest["metadata"].get("annotations") or {}
    value = annotations.get(names.ANNOTATION_MANIFEST_HASH)
    return str(value) if value is not None else None
