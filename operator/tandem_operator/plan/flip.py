"""Which workers may change their role, and when (DESIGN 3, ALGORITHM 4.10 and 7c).

A worker that one role has too many of and another too few is a relabelling away from serving there: the engine, its
weights and its GPUs are the same wherever both roles render the same template. It leaves the router first, so that
prompts and streams do not share it for longer than they must; but it need not be idle for long, nor wait for the lease
on its KV cache, for the engine does not end: what is still open or lent, it goes on serving.
"""

from tandem_operator.observe.observed import Observed, Quiet
from tandem_operator.observe.pod import PodView
from tandem_operator.observe.routing import listed
from tandem_operator.plan.actions import Delete, Drain
from tandem_operator.plan.draft import Draft
from tandem_operator.plan.faults import pod_fault
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.victims import victims

# A worker keeps a new role for so many of its own cold starts: what comes back sooner was noise.
_COLD_STARTS = 2
# Seconds; a start that looks shorter or longer than these was not measured (readiness came and went since).
_LEAST_COLD_START, _MOST_COLD_START, _UNKNOWN_COLD_START = 5.0, 300.0, 120.0


def flippable(
    role: str, observed: Observed, draft: Draft, *, wanted_hash: str, now: float, settings: Settings
) -> list[PodView]:
    """The workers that other roles let go and `role` could have, the soonest free first.

    Healthy ones with `role`'s template that were let go only because there were too many, in this pass or before.
    """
    surplus = {
        action.pod
        for action in draft.actions
        if (isinstance(action, Drain) and action.reversible)
        or (isinstance(action, Delete) and action.surplus)
    }
    fit = [
        pod
        for pod in observed.pods
        if pod.role != role
        and pod.template_hash == wanted_hash
        and (pod.name in surplus or pod.may_come_back)
        and pod_fault(pod, now=now, stuck_seconds=settings.stuck_seconds) is None
        and _has_rested(pod, now)
    ]
    idle_first = victims(fit, observed, wanted_hash=wanted_hash)
    return sorted(idle_first, key=lambda pod: not is_free(pod, observed, settings))


def is_free(pod: PodView, observed: Observed, settings: Settings) -> bool:
    """May it change now? A worker that never served has nothing to finish."""
    if not pod.started:
        return True
    if not pod.draining:
        return False
    assert pod.drain_started is not None
    quiet = observed.quiet.get(pod.name, Quiet())
    router_let_go = pod.drain_started + settings.flip_settle_seconds
    if listed(pod, observed.routings):
        return False
    return quiet.in_flight == 0 and quiet.read_at is not None and quiet.read_at >= router_let_go


def worth_waiting_for(pod: PodView, now: float, settings: Settings) -> bool:
    """It will be free sooner than a new worker would serve. Of a long drain nothing is known: it may be minutes."""
    return pod.drain_started is None or now - pod.drain_started < settings.flip_wait_seconds


def _has_rested(pod: PodView, now: float) -> bool:
    if pod.flipped_at is None:
        return True
    start = _UNKNOWN_COLD_START if pod.ready_since is None else pod.ready_since - pod.created_at
    return now - pod.flipped_at >= _COLD_STARTS * min(max(start, _LEAST_COLD_START), _MOST_COLD_START)
