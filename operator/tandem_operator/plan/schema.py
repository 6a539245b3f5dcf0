"""What the cluster's CRDs lack, in the status: said, and left out of what is written (field case D19)."""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_api.reasons import Condition, Reason
from tandem_operator.observe.observed import Observed
from tandem_operator.plan.conditions import Verdict
from tandem_operator.plan.faults import shorten

_SHOWN = 5


def outdated_sentence(missing: tuple[str, ...]) -> str:
    """`missing`: fields as ``Kind.path.of.field``, at least one."""
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return (
        f"the CRDs in the cluster are older than this operator and lack {', '.join(missing[:_SHOWN])}{more}; what is "
        "written there is lost. Apply the chart's CRDs"
    )


def schema_current(observed: Observed) -> Verdict | None:
    """False while fields are missing; no condition otherwise."""
    if not observed.missing_fields:
        return None
    message = shorten(outdated_sentence(observed.missing_fields))
    return Verdict(Condition.SCHEMA_CURRENT, "False", Reason.SCHEMA_OUTDATED, message)


def storable(status: Mapping[str, Any], kind: str, missing: Iterable[str]) -> dict[str, Any]:
    """The status less what the server has no field for. `*` in a path stands for each item, or each key."""
    kept: Any = status
    for path in missing:
        owner, _, rest = path.partition(".")
        place, _, field = rest.partition(".")
        if owner == kind and place == "status" and field:
            kept = _without(kept, field.split("."))
    return dict(kept)


def _without(value: Any, path: list[str]) -> Any:
    name, rest = path[0], path[1:]
    if isinstance(value, list) and name == "*":
        return [_without(item, rest) for item in value]
    if not isinstance(value, Mapping):
        return value
    if not rest:
        return {key: item for key, item in value.items() if key != name}
    return {key: _without(item, rest) if name in (key, "*") else item for key, item in value.items()}
