"""From the World to `Observed`: one service, one moment. No I/O here."""

from collections.abc import Collection, Mapping

from tandem_api import names
from tandem_api.kubernetes.cluster import POD, WORKER_POOL, Manifest
from tandem_operator.observe.group import gather
from tandem_operator.observe.observed import ChildKey, Observed, PoolView, Quiet, Refusal, owned_by
from tandem_operator.observe.pod import PodView, view_pod
from tandem_operator.observe.spec import read_spec


def observe(
    service: Manifest,
    children: Mapping[ChildKey, Manifest],
    *,
    foreign: Collection[ChildKey] = (),
    taken_names: Collection[str] = (),
    unanswered: Collection[str] = (),
    refusals: Collection[Refusal] = (),
    quiet: Mapping[str, Quiet] | None = None,
) -> Observed:
    """`children` is everything that says it belongs to the service; whose it really is, the owner reference tells."""
    metadata = service["metadata"]
    uid = metadata["uid"]
    spec, spec_error = read_spec(service.get("spec") or {})
    resources = frozenset(role.gpu_resource for role in spec.roles.values()) if spec else frozenset()
    workers: list[PodView] = []
    routers: list[PodView] = []
    strangers: set[str] = set(taken_names)
    leftover_gpus: int | None = 0
    pools: dict[str, PoolView] = {}
    own: dict[ChildKey, Manifest] = {}
    for (plural, name), manifest in children.items():
        mine = owned_by(manifest, uid)
        if plural == POD.plural:
            component = (manifest["metadata"].get("labels") or {}).get(names.LABEL_COMPONENT)
            if component == names.COMPONENT_ROUTER:
                routers.append(view_pod(manifest, container=names.ROUTER_CONTAINER))
            elif mine:
                workers.append(view_pod(manifest, container=names.ENGINE_CONTAINER, gpu_resources=resources))
            else:
                strangers.add(name)
                view = view_pod(manifest, container=names.ENGINE_CONTAINER, gpu_resources=resources)
                if not view.finished:
                    known = leftover_gpus is not None and view.gpus is not None
                    leftover_gpus = (leftover_gpus or 0) + (view.gpus or 0) if known else None
        elif mine:
            own[(plural, name)] = manifest
            if plural == WORKER_POOL.plural:
                pools[name] = _pool(manifest)
    return Observed(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=uid,
        generation=int(metadata.get("generation") or 0),
        spec=spec,
        spec_error=spec_error,
        deleting=bool(metadata.get("deletionTimestamp")),
        pods=tuple(sorted(gather(workers, taken_names=strangers), key=lambda pod: pod.name)),
        router_pods=tuple(sorted(routers, key=lambda pod: pod.name)),
        taken_names=frozenset(strangers),
        unanswered=frozenset(unanswered),
        leftover_gpus=leftover_gpus,
        pools=pools,
        children=own,
        foreign=frozenset(foreign),
        refusals=tuple(refusals),
        quiet=dict(quiet or {}),
        status=service.get("status") or {},
    )


def _pool(manifest: Manifest) -> PoolView:
    spec = manifest.get("spec") or {}
    return PoolView(
        name=manifest["metadata"]["name"],
        role=str(spec.get("role", "")),
        replicas=int(spec.get("replicas") or 0),
        status=manifest.get("status") or {},
    )
