"""How many workers each role should have, and who said so (field case H11)."""

from dataclasses import dataclass

from tandem_api import names
from tandem_api.inference_service import Role
from tandem_operator.observe.observed import Observed


@dataclass(frozen=True)
class Target:
    """`replicas` is what the plan works towards; `asked` what the pool's owner wrote, before the limits."""

    role: str
    replicas: int
    asked: int
    minimum: int

    @property
    def limited(self) -> bool:
        return self.replicas != self.asked


def clamp(value: int, role: Role) -> int:
    return max(role.min_replicas, min(role.max_replicas, value))


def fixed_replicas(role: Role) -> int:
    """With autoscaling Off. An explicit 0 is 0 (field case B14)."""
    return role.min_replicas if role.replicas is None else role.replicas


def seed(observed: Observed, role_name: str) -> int:
    """What a pool starts at: the workers that live already, so that nothing is put back on a restart."""
    assert observed.spec is not None
    role = observed.spec.roles[role_name]
    if observed.spec.autoscaling.mode == "Off":
        return fixed_replicas(role)
    live = sum(1 for pod in observed.pods if pod.role == role_name and pod.member)
    return clamp(live, role)


def targets(observed: Observed) -> dict[str, Target]:
    """By role, prefill first. Raises AssertionError without a valid spec."""
    assert observed.spec is not None
    found = {}
    for name, role in observed.spec.roles.items():
        if observed.spec.autoscaling.mode == "Off":
            fixed = fixed_replicas(role)
            found[name] = Target(name, fixed, fixed, fixed)
            continue
        pool = observed.pools.get(names.pool_name(observed.name, name))
        asked = pool.replicas if pool is not None else seed(observed, name)
        found[name] = Target(name, clamp(asked, role), asked, role.min_replicas)
    return found
