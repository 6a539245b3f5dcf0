"""`World`: every watched object as last heard of, found by the service it belongs to.

Three sources feed it: the informers, the periodic lists and our own writes' answers. Whichever is newer wins, by
resource version, so that a slow source never turns the clock back.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_SERVICE, Kind, Manifest

ServiceKey = tuple[str, str]  # namespace, name
_Place = tuple[str, str, str]  # plural, namespace, name
_REMEMBERED_DELETIONS = 20_000


def _version(manifest: Manifest) -> int:
    try:
        return int(manifest["metadata"].get("resourceVersion") or 0)
    except ValueError:
        return 0


class World:
    def __init__(self) -> None:
        self._objects: dict[_Place, Manifest] = {}
        self._by_service: dict[ServiceKey, set[_Place]] = {}
        self._touched: dict[_Place, int] = {}
        self._tick = 0
        # Uid -> version at which an object went out of view: a list that began before must not bring it back. A newer
        # version may, for an object also goes out of view when it loses the label that is watched for.
        self._gone: dict[str, int] = {}
        self._gone_order: deque[str] = deque()
        # Uid -> when it should be gone, of objects whose deletion we have asked for. What the server said before it
        # did that may reach us after its answer, and must not call it off.
        self._ending: dict[str, str] = {}

    # --- feeding -----------------------------------------------------------------------------------------
    def put(self, kind: Kind, manifest: Manifest) -> ServiceKey | None:
        """Take in an object; returns its service when that learned something new."""
        metadata = manifest["metadata"]
        if _version(manifest) <= self._gone.get(metadata.get("uid", ""), -1):
            return None
        place = (kind.plural, metadata.get("namespace") or "", metadata["name"])
        known = self._objects.get(place)
        self._tick += 1
        self._touched[place] = self._tick
        if known is not None and _version(manifest) <= _version(known):
            return None
        # By far the largest part of an object, and nobody here reads it.
        metadata.pop("managedFields", None)
        expected = self._ending.get(metadata.get("uid", ""))
        if expected is not None:
            metadata.setdefault("deletionTimestamp", expected)
        self._forget(place)
        if known is not None and known["metadata"].get("uid") != metadata.get("uid"):
            self._ending.pop(known["metadata"].get("uid", ""), None)
        self._objects[place] = manifest
        key = service_of(manifest)
        if key is not None:
            self._by_service.setdefault(key, set()).add(place)
        return key

    def remove(self, kind: Kind, manifest: Manifest) -> ServiceKey | None:
        """Take out an object that is gone; a successor of the same name stays."""
        metadata = manifest["metadata"]
        place = (kind.plural, metadata.get("namespace") or "", metadata["name"])
        uid = metadata.get("uid", "")
        self._bury(uid, _version(manifest))
        known = self._objects.get(place)
        if known is None or known["metadata"].get("uid") != uid or _version(manifest) < _version(known):
            return None
        self._forget(place)
        self._touched.pop(place, None)
        return service_of(known)

    def expect_deletion(self, kind: Kind, namespace: str, name: str, uid: str, *, gone_by: str) -> None:
        """We have asked for its deletion: until the server says more, treat it as terminating."""
        known = self._objects.get((kind.plural, namespace, name))
        if known is not None and known["metadata"].get("uid") == uid:
            known["metadata"].setdefault("deletionTimestamp", gone_by)
            self._ending[uid] = gone_by

    def mark(self) -> int:
        """A point in time, for `replace`."""
        return self._tick

    def replace(self, kind: Kind, listing: Iterable[Manifest], *, since: int) -> set[ServiceKey]:
        """Take in a full list that was begun at `since`; what it lacks and nobody touched after that is gone."""
        changed = set()
        present = set()
        for manifest in listing:
            metadata = manifest["metadata"]
            present.add((kind.plural, metadata.get("namespace") or "", metadata["name"]))
            key = self.put(kind, manifest)
            if key is not None:
                changed.add(key)
        for place in [place for place in self._objects if place[0] == kind.plural]:
            if place not in present and self._touched.get(place, 0) <= since:
                key = self.remove(kind, self._objects[place])
                if key is not None:
                    changed.add(key)
        return changed

    # --- asking ------------------------------------------------------------------------------------------
    def service(self, key: ServiceKey) -> Manifest | None:
        return self._objects.get((INFERENCE_SERVICE.plural, *key))

    def services(self) -> list[ServiceKey]:
        return sorted(place[1:] for place in self._objects if place[0] == INFERENCE_SERVICE.plural)

    def children(self, key: ServiceKey) -> Mapping[tuple[str, str], Manifest]:
        """(plural, name) -> every object that says it belongs to the service, the service itself left out."""
        places = self._by_service.get(key, ())
        return {
            (plural, name): self._objects[(plural, namespace, name)]
            for plural, namespace, name in sorted(places)
            if plural != INFERENCE_SERVICE.plural
        }

    def count(self, kind: Kind) -> int:
        return sum(1 for place in self._objects if place[0] == kind.plural)

    # --- inside ------------------------------------------------------------------------------------------
    def _forget(self, place: _Place) -> None:
        known = self._objects.pop(place, None)
        key = service_of(known) if known is not None else None
        if key is None:
            return
        places = self._by_service.get(key, set())
        places.discard(place)
        if not places:
            self._by_service.pop(key, None)

    def _bury(self, uid: str, version: int) -> None:
        if not uid:
            return
        self._ending.pop(uid, None)
        if uid not in self._gone:
            self._gone_order.append(uid)
            if len(self._gone_order) > _REMEMBERED_DELETIONS:
                self._gone.pop(self._gone_order.popleft(), None)
        self._gone[uid] = max(version, self._gone.get(uid, -1))


def service_of(manifest: Manifest) -> ServiceKey | None:
    """The service that an object belongs to by its label (a pool: by its spec too); None for none."""
    metadata = manifest["metadata"]
    if manifest.get("kind") == names.INFERENCE_SERVICE:
        service = metadata["name"]
    else:
        service = (metadata.get("labels") or {}).get(names.LABEL_SERVICE)
        if not service and manifest.get("kind") == names.WORKER_POOL:
            service = (manifest.get("spec") or {}).get("service")
    return (metadata.get("namespace") or "", str(service)) if service else None
