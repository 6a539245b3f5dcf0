"""Whom to let go when a role shrinks (field case C2)."""

from collections.abc import Iterable

from tandem_operator.observe.observed import Observed, Quiet
from tandem_operator.observe.pod import PodView


def victims(pods: Iterable[PodView], observed: Observed, *, wanted_hash: str) -> list[PodView]:
    """Best victim first: starting, then out of date, then fewest in flight, then least KV, then newest.

    A worker whose load is unknown counts as the busiest: unknown is not zero.
    """

    def rank(pod: PodView) -> tuple[bool, bool, bool, float, float, float, str]:
        quiet = observed.quiet.get(pod.name, Quiet())
        return (
            pod.started,
            pod.template_hash == wanted_hash,
            pod.ready,
            float("inf") if quiet.in_flight is None else quiet.in_flight,
            float("inf") if quiet.kv_usage is None else quiet.kv_usage,
            -pod.created_at,
            pod.name,
        )

    return sorted(pods, key=rank)
