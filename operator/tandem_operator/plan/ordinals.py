"""Deterministic names: the lowest ordinals that nobody has."""

from collections.abc import Iterator

from tandem_api import names
from tandem_operator.observe.observed import Observed


def free_ordinals(observed: Observed) -> Iterator[int]:
    """Ordinals in rising order whose pod name is free. A second look at a stale world gives the same names, so the
    API server's 409 stops a double."""
    taken = {pod.name for pod in observed.pods} | observed.taken_names
    ordinal = 0
    while True:
        if names.worker_name(observed.name, ordinal) not in taken:
            yield ordinal
        ordinal += 1
