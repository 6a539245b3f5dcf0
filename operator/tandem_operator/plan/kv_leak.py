"""KVLeakSuspected: a worker keeps KV cache for nobody (field case F5).

A request that is broken off between its two legs may leave blocks that neither side frees. Such a worker looks full and
does nothing: more workers are no answer, its restart is.
"""

from tandem_api.reasons import Condition, Reason
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.conditions import Verdict
from tandem_operator.plan.faults import shorten
from tandem_operator.plan.settings import Settings


def may_strand_kv(observed: Observed) -> frozenset[str]:
    """Names of the workers that hand KV over, or take it."""
    if observed.spec is None or observed.spec.mode != "Disaggregated" or observed.deleting:
        return frozenset()
    return frozenset(pod.name for pod in observed.pods if pod.member and pod.started)


def kv_leak(observed: Observed, *, now: float, settings: Settings) -> Verdict | None:
    """True with the workers' names; None, so no condition, while nothing is suspected."""
    suspects = sorted(
        pod.name
        for pod in observed.pods
        if pod.member and now - observed.stranded.get(pod.name, now) >= settings.kv_leak_seconds
    )
    if not suspects:
        return None
    minutes = settings.kv_leak_seconds / 60
    them = "it" if len(suspects) == 1 else "them"
    return Verdict(
        Condition.KV_LEAK_SUSPECTED,
        "True",
        Reason.KV_NOT_RELEASED,
        shorten(
            f"KV cache has been held for {minutes:g} min and more with no request running on {', '.join(suspects)}; "
            f"delete {them} to have {them} replaced"
        ),
    )
