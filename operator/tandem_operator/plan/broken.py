"""Groups whose engine cannot go on because one of its ranks is lost: the worker goes, and its role makes another.

A rank that is only being deleted lives until its leader is gone; then the worker drains like any other.
"""

from tandem_operator.observe.observed import Observed
from tandem_operator.plan.actions import Delete, Drain
from tandem_operator.plan.draft import Draft
from tandem_operator.plan.rest import rest_left_seconds
from tandem_operator.plan.settings import Settings


def end_broken(observed: Observed, draft: Draft, *, now: float, settings: Settings) -> None:
    """Let go of every broken group that does not drain or end already."""
    for pod in observed.pods:
        if pod.broken is None or pod.draining or pod.terminating or pod.finished:
            continue
        if pod.broken.finishes:
            draft.actions.append(Drain(pod.name, pod.uid, pod.role, now, pod.broken.reason))
            continue
        rest = rest_left_seconds(pod, now, settings)
        if rest > 0:
            draft.look_again(rest)
            continue
        draft.actions.append(Delete(pod.name, pod.uid, pod.role, pod.broken.reason))
