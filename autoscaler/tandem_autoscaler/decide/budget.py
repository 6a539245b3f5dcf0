"""GPUs over the roles of one service. The budget only ever takes away (ai-dynamo/dynamo#13064 gave)."""

from collections.abc import Mapping


def clamp(
    desired: Mapping[str, int], gpus: Mapping[str, int], minimum: Mapping[str, int], budget: int
) -> dict[str, int] | None:
    """The largest pools that the budget affords: none above its wish, none below its minimum.

    Among those it is the one where the worst-served role has the largest part of its wish (ALGORITHM 4.8). None
    when even the minima cost too much: then there is nothing right to do but to say so. Roles without GPUs cost
    nothing and get their wish.
    """
    floor = {role: min(desired[role], max(minimum.get(role, 0), min(1, desired[role]))) for role in desired}
    if sum(floor[role] * gpus[role] for role in desired) > budget:
        return None
    if sum(desired[role] * gpus[role] for role in desired) <= budget:
        return dict(desired)
    given = {role: desired[role] if gpus[role] == 0 else floor[role] for role in desired}
    left = budget - sum(given[role] * gpus[role] for role in desired)
    open_roles = {role for role in desired if given[role] < desired[role]}
    while open_roles:
        # Deterministic: by the share of the wish, then the cheaper one, then the name.
        role = min(open_roles, key=lambda r: (given[r] / desired[r], gpus[r], r))
        if gpus[role] <= left:
            given[role] += 1
            left -= gpus[role]
            if given[role] == desired[role]:
                open_roles.discard(role)
        else:
            open_roles.discard(role)
    return given
