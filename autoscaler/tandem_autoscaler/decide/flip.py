"""A prefill worker that can be spared for a decode that lacks one, now (ALGORITHM 4.10, 7c).

Where both roles run the same template the operator changes a worker's role within seconds, while a new one takes a
cold start. So when decode must grow, prefill need not wait for its scale-down to be confirmed. Only this way round: in
simulation prefill that was helped out by decode workers cost decode more than it gained (ALGORITHM 7c).
"""

from collections.abc import Mapping
from dataclasses import replace

from tandem_api import names
from tandem_autoscaler.decide.decision import Decision, Why
from tandem_autoscaler.decide.quality import RoleCount
from tandem_autoscaler.decide.wish import Wish
from tandem_autoscaler.fleet.service import Service

# A pool that is held for another reason than these is not ours to shrink early. A promise that is broken by decode is
# no reason to keep prefill: one that is broken by prefill has raised its need.
_HELD = (Why.STEADY, Why.CONFIRMING, Why.SLO_BURN)


def with_flip(
    decisions: Mapping[str, Decision],
    service: Service,
    wished: Mapping[str, Wish],
    counts: Mapping[str, RoleCount],
    *,
    sighted: bool,
) -> dict[str, Decision]:
    """The decisions, prefill's lowered by one where a worker of it should become a decode worker.

    `sighted`: every role was heard lately. One at a time: the next only when none drains.
    """
    prefill, decode = decisions.get(names.PREFILL), decisions.get(names.DECODE)
    if not service.flips or prefill is None or decode is None or decode.target <= decode.current:
        return dict(decisions)
    pool, there = service.pools[names.PREFILL], counts[names.PREFILL]
    wish = wished[names.PREFILL]
    spared = (
        sighted
        and wish.known
        and wish.workers is not None
        and max(wish.workers, wish.keep) < there.ready
        and not there.starting
        and not there.draining
        and prefill.why in _HELD
        and prefill.target == prefill.current
        and prefill.current > max(1, pool.minimum)
    )
    if not spared:
        return dict(decisions)
    target = prefill.current - 1
    message = (
        f"prefill {prefill.current} -> {target}: it needs {wish.workers}, and decode needs one more at once: "
        "one changes its role"
    )
    return {
        **decisions,
        names.PREFILL: replace(prefill, target=target, why=Why.ROLE_FLIP, message=message),
    }
