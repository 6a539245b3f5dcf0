"""A worker that runs on several nodes counts as one: its leader, which alone serves and has metrics.

Counted pod by pod, two groups of four would be eight workers with a quarter of the load (llm-d-autoscaling#1133).
"""

from collections.abc import Iterable
from dataclasses import replace

from tandem_api import names
from tandem_autoscaler.fleet.service import Pod


def gather(pods: Iterable[Pod]) -> list[Pod]:
    """The pods without followers; what ails one of those, ails its leader. A follower without a leader is dropped."""
    kept: list[Pod] = []
    followers: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.role == names.COMPONENT_FOLLOWER:
            followers.setdefault(pod.group, []).append(pod)
        else:
            kept.append(pod)
    return [_with(pod, followers.get(pod.name, [])) if pod.group == pod.name else pod for pod in kept]


def _with(leader: Pod, followers: list[Pod]) -> Pod:
    draining = leader.draining or any(pod.draining for pod in followers)
    ready = leader.ready and not draining and all(pod.ready for pod in followers)
    times = [pod.ready_since_seconds for pod in (leader, *followers) if pod.ready_since_seconds is not None]
    return replace(
        leader,
        ready=ready,
        ready_since_seconds=max(times) if leader.ready_since_seconds is not None else None,
        draining=draining,
        stuck=not ready and any(pod.stuck for pod in (leader, *followers)),
    )
