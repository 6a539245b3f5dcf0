"""A worker that runs on several nodes as one view, so that plans go on thinking in workers.

The engine is one: rank 0, the leader, serves HTTP and schedules, the other ranks only compute. Once they have met, none
can be put in another's place: the loss of one ends all (docs/adr/0009). Until then a rank may come late, or again.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from tandem_api import names
from tandem_operator.observe.pod import Broken, PodView


def gather(pods: Iterable[PodView], *, taken_names: Collection[str] = ()) -> list[PodView]:
    """Pods -> workers: the pods of one group become one view, all others stay what they are.

    `taken_names` are pod names that somebody else has; a rank of that name can never be made.
    """
    workers: list[PodView] = []
    groups: dict[str, list[PodView]] = {}
    for pod in pods:
        if pod.group:
            groups.setdefault(pod.group, []).append(pod)
        else:
            workers.append(pod)
    for ranks in groups.values():
        ranks.sort(key=lambda pod: (pod.rank, pod.name))
        leads = ranks[0].rank == 0
        workers.append(_worker(ranks, taken_names) if leads else _orphans(ranks))
    return workers


def joined(pod: PodView) -> str:
    """How often each rank's engine has restarted so far, as `names.ANNOTATION_JOINED` keeps it."""
    return ",".join(str(rank.restarts) for rank in pod.ranks)


def _worker(ranks: list[PodView], taken_names: Collection[str]) -> PodView:
    leader, present = ranks[0], {pod.rank for pod in ranks}
    missing = tuple(rank for rank in range(leader.nodes) if rank not in present)
    broken = _broken(ranks, missing, taken_names)
    ready = broken is None and not missing and all(pod.ready for pod in ranks)
    times = [pod.ready_since for pod in ranks if pod.ready_since is not None]
    return replace(
        leader,
        # Finished is only what holds no GPU any more.
        phase=leader.phase if all(pod.finished for pod in ranks) or not leader.finished else "Running",
        ready=ready,
        ready_since=max(times) if ready and times else None,
        gpus=_gpus(ranks, 0 if broken or leader.terminating else len(missing)),
        ranks=tuple(ranks),
        missing=missing,
        broken=broken,
    )


def _orphans(ranks: list[PodView]) -> PodView:
    """Ranks whose leader is gone: they hold GPUs and serve nobody."""
    ends = [pod.gone_by for pod in ranks if pod.gone_by is not None]
    return replace(
        ranks[0],
        phase=ranks[0].phase if all(pod.finished for pod in ranks) else "Running",
        ready=False,
        ready_since=None,
        started=False,
        gone_by=max(ends) if len(ends) == len(ranks) else None,
        gpus=_gpus(ranks, 0),
        ranks=tuple(ranks),
        broken=Broken(f"its leader {ranks[0].group} is gone"),
    )


def _gpus(ranks: list[PodView], to_come: int) -> int | None:
    """What the group holds, or will hold once it is whole: the budget admitted it whole."""
    total = (ranks[0].gpus or 0) * to_come
    for pod in ranks:
        if pod.gpus is None:
            return None
        total += 0 if pod.finished else pod.gpus
    return total


def _broken(ranks: list[PodView], missing: tuple[int, ...], taken_names: Collection[str]) -> Broken | None:
    leader = ranks[0]
    if leader.terminating:
        return None
    for pod in ranks:
        if pod.finished:
            return Broken(f"{pod.name} ended ({pod.reason or pod.phase})")
    absent = [names.follower_name(leader.name, rank) for rank in missing]
    before = leader.annotations.get(names.ANNOTATION_JOINED)
    met = before is not None or leader.started
    if met and absent:
        return Broken(f"{absent[0]} is gone")
    for name in absent:
        if name in taken_names:
            return Broken(f"the name {name} belongs to another pod")
    for pod, restarts in zip(ranks, (before or "").split(","), strict=False):
        if restarts.isdigit() and pod.restarts > int(restarts):
            return Broken(f"the engine of {pod.name} restarted")
    for pod in ranks:
        if pod.terminating:
            return Broken(f"{pod.name} is being deleted", finishes=met)
    return None
