"""Which draining workers may be taken back when their role grows again.

A draining worker is warm, holds its GPU anyway and is a relabelling away from serving; a new one is a cold start of
minutes on a second GPU.
"""

from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.faults import pod_fault
from tandem_operator.plan.settings import Settings
from tandem_operator.plan.victims import victims


def reversible_drains(
    role: str, observed: Observed, *, wanted_hash: str, now: float, settings: Settings
) -> list[PodView]:
    """The role's draining workers that may serve again, the fullest first: the reverse order of letting go.

    Only healthy ones with the present template, and only those that were let go because there were too many.
    """
    fit = [
        pod
        for pod in observed.pods
        if pod.role == role
        and pod.may_come_back
        and pod.template_hash == wanted_hash
        and pod_fault(pod, now=now, stuck_seconds=settings.stuck_seconds) is None
    ]
    return victims(fit, observed, wanted_hash=wanted_hash)[::-1]
