"""What roles below their minimum may claim of the GPU budget, whether or not all minima fit into it.

The rollout of another role and `grow` ask the same question here: what one keeps, the other must not count on, or
either would wait for the other for ever.
"""

from collections.abc import Mapping

from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.observe.spec import gpus_per_worker
from tandem_operator.plan.budget import Budget
from tandem_operator.plan.targets import Target


def within_reach(
    role: str, spec: InferenceServiceSpec, targets: Mapping[str, Target], have: Mapping[str, int]
) -> int:
    """How many workers `role` lacks of its minimum and could have if every other role had no more than its own.

    `have`: workers by role. Each is counted with the GPUs that one of the present template needs.
    """
    lacking = max(0, targets[role].minimum - have[role])
    gpus = gpus_per_worker(spec.roles[role])
    needed = Budget(spec.gpu_budget, 0)
    for other, target in targets.items():
        count = have[role] if other == role else min(have[other], target.minimum)
        each = gpus_per_worker(spec.roles[other])
        needed = needed.plus(None if each is None else count * each)
    reached = 0
    while reached < lacking and needed.admits(gpus):
        needed = needed.plus(gpus)
        reached += 1
    return reached


def kept_for_minima(
    spec: InferenceServiceSpec, targets: Mapping[str, Target], have: Mapping[str, int], *, beside: str
) -> int | None:
    """GPUs that no rollout of the role `beside` must count on for a surge. None: not known."""
    kept = 0
    for role in targets:
        gpus = gpus_per_worker(spec.roles[role])
        if gpus is None:
            return None
        if role != beside:
            kept += gpus * within_reach(role, spec, targets, have)
    return kept
