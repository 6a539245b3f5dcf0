"""After a change of mode: do the new roles serve yet? Until then the old ones stay (field cases D8, D9)."""

from collections.abc import Mapping

from tandem_operator.observe.observed import Observed
from tandem_operator.plan.targets import Target


def new_roles_serve(observed: Observed, targets: Mapping[str, Target]) -> bool:
    """Does every role of the present mode have the workers that it must have at least?"""
    for name, target in targets.items():
        ready = sum(1 for pod in observed.pods if pod.role == name and pod.member and pod.ready)
        if ready < must_serve(target):
            return False
    return True


def must_serve(target: Target) -> int:
    """Workers of one role without which the router does not turn to its mode."""
    return min(target.replicas, max(1, target.minimum))
