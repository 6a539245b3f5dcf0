"""Limits of a target, and when a pool may shrink (ALGORITHM 4.10, 4.11)."""

from dataclasses import dataclass

from tandem_autoscaler.decide.decision import Quality, Why
from tandem_autoscaler.decide.quality import RoleCount
from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.decide.state import RoleMemory, changed
from tandem_autoscaler.fleet.service import Pool

# No confirmation takes more ticks than these.
_MOST_NEEDS = 2000


@dataclass(frozen=True)
class Gated:
    """A target within its limits; `why` and `because` are None where the need itself stands."""

    target: int
    why: Why | None = None
    because: str | None = None


@dataclass(frozen=True)
class Conditions:
    """What the gate looks at besides the need."""

    now_seconds: float
    quality: Quality
    all_fresh: bool  # both roles, for two ticks
    known: bool  # every signal of this pool is known
    burning: bool
    idle: bool
    idle_for_seconds: float
    idle_limit_seconds: float
    confirm_seconds: float
    sighted_for_seconds: float  # of the last window, how much was measured
    keep: int  # the need at a rate that is higher by chance: no shrinking below
    others_serve: bool  # another role keeps at least one worker


def remember(
    memory: RoleMemory, pool: Pool, need: int | None, now: float, confirm_seconds: float
) -> RoleMemory:
    """The memory with this tick's need, for the confirmation of a later scale-down, and with what became of the pool.

    A pool that someone else has set is left alone for the time of a confirmation.
    """
    needs = memory.needs
    if need is not None:
        kept = [item for item in needs if now - item[0] <= confirm_seconds]
        needs = (*kept, (now, need))[-_MOST_NEEDS:]
    shrunk = memory.current is not None and pool.replicas < memory.current
    by_hand = set_by_hand(memory, pool)
    return changed(
        memory,
        needs=needs,
        shrunk_at_seconds=now if shrunk else memory.shrunk_at_seconds,
        manual_until_seconds=now + confirm_seconds if by_hand else memory.manual_until_seconds,
        quiet_since_seconds=now if by_hand else memory.quiet_since_seconds,
    )


def set_by_hand(memory: RoleMemory, pool: Pool) -> bool:
    """True when the pool holds neither what it held at the last tick nor what we then decided."""
    return memory.current is not None and pool.replicas not in (memory.current, memory.target)


def gate(
    need: int | None, pool: Pool, counts: RoleCount, memory: RoleMemory, at: Conditions, settings: Settings
) -> Gated:
    """The target for this tick. Only limits may move a pool without a known need."""
    current = pool.replicas
    low, high = pool.minimum, pool.maximum
    if current > high:
        return Gated(high, Why.ABOVE_MAXIMUM, f"maxReplicas is {high}")
    if current < low:
        return Gated(low, Why.BELOW_MINIMUM, f"minReplicas is {low}")
    if memory.manual_until_seconds is not None and at.now_seconds < memory.manual_until_seconds:
        left = memory.manual_until_seconds - at.now_seconds
        return Gated(
            current, Why.MANUAL, f"someone else set it to {current}; left alone for {left:.0f} s more"
        )
    if need is None:
        return Gated(current, Why.NO_DATA if at.quality is Quality.BLIND else Why.WAITING_FOR_DATA)
    # A role keeps its last worker while the other role has one; both go to zero together or not at all.
    low = max(low, min(1, current)) if (at.others_serve or not _may_be_zero(at, counts)) else low
    wanted = min(max(need, low), high)
    if wanted > current:
        # As many again as are ready, or four more, at once: beyond that a fault of the model is likelier than a need.
        return Gated(min(wanted, current + max(4, counts.ready)))
    wanted = min(max(wanted, at.keep), current)
    if at.quality in (Quality.STALE, Quality.BLIND):
        # Also where the need of the last that was seen is what stands: nobody knows whether it still is the need.
        return Gated(current, *_unseen(at, counts))
    if wanted == current:
        return Gated(current)
    return _shrink(wanted, current, counts, memory, at, settings)


def _may_be_zero(at: Conditions, counts: RoleCount) -> bool:
    """Idle for long enough. A worker that is still starting counts as a reason to wait: it was wanted."""
    return at.idle and at.idle_for_seconds >= at.idle_limit_seconds and counts.starting <= counts.stuck


def _shrink(
    wanted: int, current: int, counts: RoleCount, memory: RoleMemory, at: Conditions, settings: Settings
) -> Gated:
    """Down only with full sight, without misses, after the confirmation time, and by a quarter a minute."""
    if not at.known:
        return Gated(current, Why.PARTIAL_DATA, "not every signal of this role is known")
    if at.quality is Quality.EMPTY and not at.idle:
        return Gated(current, Why.STARTING, "no worker is ready yet")
    if at.quality is not Quality.EMPTY and (at.quality is not Quality.FRESH or not at.all_fresh):
        return Gated(current, *_unseen(at, counts))
    if counts.starting > counts.stuck and not at.idle:
        return Gated(current, Why.STARTING, f"{counts.starting} are still starting")
    if at.burning and not at.idle:
        return Gated(current, Why.SLO_BURN, "the last minute's requests missed the target too often")
    if at.sighted_for_seconds < 0.9 * settings.window_seconds:
        return Gated(
            current, Why.CONFIRMING, f"{wanted} would do, but less than one window has been measured"
        )
    since = max(memory.quiet_since_seconds, at.now_seconds - at.confirm_seconds)
    waited = at.now_seconds - memory.quiet_since_seconds
    if waited < at.confirm_seconds:
        return Gated(
            current, Why.CONFIRMING, f"{wanted} would do; {at.confirm_seconds - waited:.0f} s more to be sure"
        )
    most = max((need for when, need in memory.needs if when >= since), default=wanted)
    if most >= current:
        return Gated(
            current,
            Why.CONFIRMING,
            f"{wanted} would do now, {most} within the last {at.confirm_seconds:.0f} s",
        )
    wanted = max(wanted, most)
    period = min(settings.step_seconds, at.confirm_seconds)
    if memory.shrunk_at_seconds is not None and at.now_seconds - memory.shrunk_at_seconds < period:
        return Gated(current, Why.CONFIRMING, f"{wanted} would do; the last step down was a moment ago")
    # Workers that are not ready serve nobody; only the loss of ready ones is rationed.
    floor = counts.ready - max(1, int(settings.step_share * counts.ready))
    return Gated(max(wanted, floor), Why.LESS_NEEDED)


def _unseen(at: Conditions, counts: RoleCount) -> tuple[Why, str]:
    match at.quality:
        case Quality.PARTIAL:
            return Why.PARTIAL_DATA, f"{counts.ready - counts.heard} of {counts.ready} workers did not answer"
        case Quality.STALE:
            return Why.STALE_DATA, "no worker has answered for some time"
        case Quality.BLIND:
            return Why.NO_DATA, "no worker answers"
        case _:
            return Why.PARTIAL_DATA, "the workers have only just answered again"
