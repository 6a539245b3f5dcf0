"""Replacing workers of an older template, one at a time per role.

A spare GPU in the budget, or no budget, makes the new worker come first (surge). Where the cluster has no GPU for
it, or the budget none, one old worker goes first (field case D7). A new template that does not get ready stops the
rollout by itself: the next step waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem_operator.observe.observed import Observed
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.room import lacks_room
from tandem_operator.plan.victims import victims


@dataclass(frozen=True)
class RolloutStep:
    """At most one of the two is set, besides `discard`."""

    # Make one more than the target, with the new template.
    surge: bool = False
    # Drain this one.
    retire: PodView | None = None
    # Old workers that never served: they go at once, they hold nothing.
    discard: tuple[PodView, ...] = ()


def rollout_step(
    role: str,
    observed: Observed,
    *,
    wanted_hash: str,
    target: int,
    room_for_surge: bool,
    room_may_come: bool = False,
) -> RolloutStep:
    """The next step for one role; empty when every member is up to date.

    `room_may_come`: what the scheduler says of a full cluster may be out of date, so nothing old goes because of it.
    """
    pods = [pod for pod in observed.pods if pod.role == role]
    members = [pod for pod in pods if pod.member]
    outdated = [pod for pod in members if pod.template_hash != wanted_hash]
    discard = tuple(sorted((pod for pod in outdated if not pod.started), key=lambda pod: pod.name))
    outdated = [pod for pod in outdated if pod.started]
    if not outdated or discard or target == 0:
        return RolloutStep(discard=discard)
    if any(pod.draining for pod in pods):
        return RolloutStep()
    current = [pod for pod in members if pod.template_hash == wanted_hash]
    unready = [pod for pod in current if not pod.ready]
    sick = [pod for pod in outdated if not pod.ready]
    if unready and (room_may_come or not all(lacks_room(pod) for pod in unready)):
        return RolloutStep()
    if len(members) > target or unready or not room_for_surge:
        # Where budget or cluster keep the role short of its target, it rolls out as many as it can have.
        size = target if room_for_surge and not unready else min(target, len(members) - len(unready))
        return RolloutStep(
            retire=_retirable(outdated, sick, members, observed, wanted_hash=wanted_hash, size=size)
        )
    return RolloutStep(surge=len(members) == target)


def _retirable(
    outdated: Sequence[PodView],
    sick: Sequence[PodView],
    members: Sequence[PodView],
    observed: Observed,
    *,
    wanted_hash: str,
    size: int,
) -> PodView | None:
    """The old worker to let go, never leaving fewer than size - 1 ready ones; an unready one costs nothing."""
    if sick:
        return victims(sick, observed, wanted_hash=wanted_hash)[0]
    ready = sum(1 for pod in members if pod.ready)
    if ready < size:
        return None
    return victims(outdated, observed, wanted_hash=wanted_hash)[0]


def updated_count(pods: Sequence[PodView], wanted_hash: str) -> int:
    return sum(1 for pod in pods if pod.member and pod.template_hash == wanted_hash)
