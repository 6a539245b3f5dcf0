"""How long the place of a worker that failed for good stays empty: at first ten seconds, and twice as long each time.

A pod that the node refuses, that is evicted at once or whose group breaks as soon as it meets comes to the same end as
its successor, and as its successor's. A new one each second would be a load on everybody and the cure of nothing.
"""

from tandem_api import names
from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.settings import Settings


def has_failed(pod: PodView) -> bool:
    """It never comes back by itself, and it is not being deleted yet."""
    broken = pod.broken is not None and not pod.broken.finishes
    return (pod.finished or broken) and not pod.terminating


def rest_left_seconds(pod: PodView, now: float, settings: Settings) -> float:
    """Until the failed worker is cleared and its place filled again; 0 for now. Counted from its creation."""
    rest = settings.replace_failed_seconds * 2 ** min(_attempt(pod), 30)
    return max(0.0, pod.created_at + min(rest, settings.most_rest_seconds) - now)


def resting_places(observed: Observed, role: str, *, now: float, settings: Settings) -> int:
    return sum(
        has_failed(pod) and rest_left_seconds(pod, now, settings) > 0
        for pod in observed.pods
        if pod.role == role
    )


def next_attempt(observed: Observed, role: str, *, now: float, settings: Settings) -> int:
    """How many workers have failed in a row where the next one of this role is made; kept on it."""
    return max(
        (
            _attempt(pod) + 1
            for pod in observed.pods
            # What lived for long did not fail for the reason that it was made.
            if pod.role == role and has_failed(pod) and now - pod.created_at < 2 * settings.most_rest_seconds
        ),
        default=0,
    )


def _attempt(pod: PodView) -> int:
    text = pod.annotations.get(names.ANNOTATION_ATTEMPT, "")
    return int(text) if text.isdigit() else 0
