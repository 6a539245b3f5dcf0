"""Deterministic names: the lowest ordinals that nobody has."""

import itertools
from collections.abc import Iterator

from tandem_api import names
from tandem_operator.observe.observed import Observed


def free_ordinals(observed: Observed) -> Iterator[int]:
    """Ordinals in rising order whose pod names, followers' included, are free.

    A second look at a stale world gives the same names, so the API server's 409 stops a double. For the same reason a
    name whose creation had no answer comes before all others: asked for again, it is made, or it turns out to be there.
    """
    taken = {pod.group or pod.name for pod in observed.pods} | observed.taken_names
    nodes = max((role.nodes for role in observed.spec.roles.values()), default=1) if observed.spec else 1
    doubtful = _ordinals(observed)
    for ordinal in itertools.chain(doubtful, itertools.count()):
        leader = names.worker_name(observed.name, ordinal)
        if taken.isdisjoint({leader, *(names.follower_name(leader, rank) for rank in range(1, nodes))}):
            taken.add(leader)
            yield ordinal


def _ordinals(observed: Observed) -> list[int]:
    """Of the names that had no answer, those of leaders and of workers of one pod."""
    suffixes = (name.removeprefix(f"{observed.name}-") for name in observed.unanswered)
    return sorted(int(suffix) for suffix in suffixes if suffix.isdigit())
