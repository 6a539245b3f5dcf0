"""Constants for a trace, chosen on seeds that are not reported."""

from collections.abc import Sequence

from tandem_autoscaler.benchmark.frontier import mean
from tandem_autoscaler.benchmark.row import Row, gpu_hours
from tandem_autoscaler.benchmark.verdict import keeps_promise
from tandem_autoscaler.simulator.policies.baselines import Constants


def choose(rows: Sequence[Row]) -> dict[tuple[str, str], Constants]:
    """(trace, policy) -> the cheapest constants that keep 99 % in the mean, else those that attain most."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        by_constants = groups.setdefault((row["trace"], row["policy"]), {})
        by_constants.setdefault(repr(sorted(row["constants"].items())), []).append(row)
    return {key: min(group.values(), key=_rank)[0]["constants"] for key, group in groups.items()}


def _rank(rows: Sequence[Row]) -> tuple[float, float]:
    joint = mean([row["joint_attainment"] for row in rows]).value
    hours = mean([gpu_hours(row) for row in rows]).value
    return (0.0, hours) if keeps_promise(joint) else (1.0 - joint, hours)
