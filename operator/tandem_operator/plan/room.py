"""Whether the cluster has room, as far as the scheduler tells: it says so of pods only, and only when it last tried."""

from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.settings import Settings


def lacks_room(pod: PodView) -> bool:
    """The scheduler has found no free hardware for one of its pods."""
    return any("Insufficient " in each.unschedulable for each in pod.pods)


def is_placed(pod: PodView) -> bool:
    """All its pods have their nodes."""
    return not pod.forming if pod.ranks else pod.scheduled


def seconds_until_room_is_known(observed: Observed, now: float, settings: Settings) -> float:
    """0 when a pod that lacks room lacks it still; else after so long the scheduler has surely tried again.

    What a worker gave back a moment ago may be the room that is lacked: one that goes as well might be the last.
    """
    if not any(lacks_room(pod) for pod in observed.pods if pod.member):
        return 0.0
    return max(0.0, observed.freed_at + settings.room_settle_seconds - now)
