"""`Draft`: what one pass has decided about the workers so far."""

from dataclasses import dataclass, field

from tandem_api.reasons import Reason
from tandem_operator.observe.pod import PodView
from tandem_operator.plan.actions import Action, Delete, Drain


@dataclass(frozen=True)
class Hindrance:
    """Why a role has not the workers that it should have, in a sentence for its condition."""

    reason: Reason
    message: str


@dataclass
class Draft:
    """The actions, and what stood in the way. Built up by `size` and then only read."""

    actions: list[Action] = field(default_factory=list)
    requeue_seconds: float | None = None
    # Roles that should grow and may not.
    blocked: dict[str, Hindrance] = field(default_factory=dict)
    # Roles that get a worker of another role as soon as it is free: no pod is made meanwhile.
    awaited: dict[str, Hindrance] = field(default_factory=dict)

    def leaving(self) -> set[str]:
        """Names of the workers that are let go in this pass."""
        return {action.pod for action in self.actions if isinstance(action, Drain | Delete)}

    def let_go(self, pod: PodView, *, now: float, reason: str, reversible: bool = False) -> None:
        """A worker that never served has nothing to finish."""
        if pod.started:
            self.actions.append(Drain(pod.name, pod.uid, pod.role, now, reason, reversible))
        else:
            self.actions.append(Delete(pod.name, pod.uid, pod.role, reason, surplus=reversible))

    def look_again(self, seconds: float) -> None:
        seconds = max(0.1, seconds)
        self.requeue_seconds = seconds if self.requeue_seconds is None else min(self.requeue_seconds, seconds)
