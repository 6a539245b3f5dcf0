"""When a worker that left the router may go.

Label off -> the routers let go (settle, and none that answers lists it) -> two readings of zero open requests -> for
prefill, the KV lease of its last work -> delete. At the deadline it goes in any case. An unknown load is not zero: then
only the deadline ends it.
"""

from dataclasses import dataclass

from tandem_api import names
from tandem_api.kubernetes.cluster import INFERENCE_POOL
from tandem_operator.observe.observed import Observed, Quiet
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.settings import Settings


@dataclass(frozen=True)
class Gone:
    """It may be deleted, and why."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """Not yet; look again after this."""

    seconds: float


def seconds_to_settle(observed: Observed, settings: Settings) -> float:
    """How long after its label went a worker may still be sent new requests.

    The routers are asked whom they list; who chooses past them, by the InferencePool, cannot be.
    """
    past_router = observed.child(INFERENCE_POOL, observed.name) is not None
    return settings.past_router_settle_seconds if past_router else settings.drain_settle_seconds


def drain_step(
    pod: PodView,
    quiet: Quiet,
    *,
    now: float,
    deadline_seconds: float,
    settle_seconds: float,
    settings: Settings,
    hands_over_kv: bool,
    listed: bool = False,
) -> Gone | Wait:
    """What to do with a draining worker now.

    `settle_seconds`: so long after its label went it may be sent new requests. `hands_over_kv`: its decode peers may
    still read from it. `listed`: a router would still send work to it.
    """
    assert pod.drain_started is not None
    if pod.broken is not None and not pod.broken.finishes:
        return Gone(pod.broken.reason)
    if not pod.started:
        return Gone("it never served")
    ends_at = pod.drain_started + deadline_seconds
    if now >= ends_at:
        left = "unknown load" if quiet.in_flight is None else f"{quiet.in_flight:g} requests open"
        return Gone(f"the drain deadline of {deadline_seconds:g} s passed with {left}")
    poll = min(settings.drain_poll_seconds, ends_at - now)
    if listed or quiet.idle_since is None or quiet.read_at is None:
        return Wait(poll)
    settled_at = pod.drain_started + settle_seconds
    # The first zero counts only once the router has let go; the second must be a later reading.
    if quiet.read_at - max(quiet.idle_since, settled_at) < settings.drain_quiet_seconds:
        return Wait(poll)
    if hands_over_kv and _lent_kv(pod, now, settings):
        # Its work may have ended any time up to the first zero after the router let go.
        last_work = max(settled_at, quiet.last_busy or 0.0)
        left_seconds = last_work + settings.kv_lease_seconds - now
        if left_seconds > 0:
            return Wait(min(left_seconds, ends_at - now))
        return Gone("idle, and its KV lease is over")
    return Gone("idle")


def _lent_kv(pod: PodView, now: float, settings: Settings) -> bool:
    """Prefill workers do; one that became a decode worker a moment ago did."""
    if pod.role == names.PREFILL:
        return True
    return pod.flipped_at is not None and now - pod.flipped_at < settings.kv_lease_seconds
