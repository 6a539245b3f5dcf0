"""Who owns replicas (field case H11, B14)."""

from typing import Any

import pytest

from tandem_api import names
from tests.operator.fleet import Fleet, colocated


def fleet_with(live: int, wish: dict[str, Any]) -> Fleet:
    """A fleet that has come to rest at `live` workers, and then gets this wish."""
    fleet = Fleet(colocated(workers={"minReplicas": 0, "maxReplicas": 100}))
    fleet.settle()
    fleet.scale("workers", live)
    fleet.settle()
    assert len(fleet.pods()) == live
    fleet.service["spec"] = wish
    fleet.settle()
    return fleet


@pytest.mark.parametrize(
    ("live", "wish", "right"),
    [
        (4, colocated(workers={"minReplicas": 1, "maxReplicas": 8}), 4),
        (4, colocated(autoscaling={"mode": "Off"}, workers={"replicas": 0, "maxReplicas": 8}), 0),
        (2, colocated(autoscaling={"mode": "Off"}, workers={"replicas": 6, "maxReplicas": 8}), 6),
        (12, colocated(workers={"minReplicas": 1, "maxReplicas": 8}), 8),
        (4, colocated(autoscaling={"mode": "Off"}, workers={"replicas": 1}), 1),
        (0, colocated(workers={"minReplicas": 0, "maxReplicas": 8}), 0),
        (0, colocated(workers={"minReplicas": 2, "maxReplicas": 8}), 2),
    ],
)
def test_the_target_after_reconcile(live: int, wish: dict[str, Any], right: int) -> None:
    assert len(fleet_with(live, wish).pods()) == right


def test_a_restart_at_three_writes_nothing() -> None:
    fleet = fleet_with(3, colocated(workers={"minReplicas": 1, "maxReplicas": 8}))
    writes = fleet.writes
    fleet.step()
    assert fleet.writes == writes


def test_a_lost_pool_is_made_again_at_the_live_count() -> None:
    fleet = fleet_with(3, colocated(workers={"minReplicas": 1, "maxReplicas": 8}))
    del fleet.objects[(names.WORKER_POOLS, "chat-workers")]
    fleet.settle()
    assert fleet.objects[(names.WORKER_POOLS, "chat-workers")]["spec"]["replicas"] == 3
    assert len(fleet.pods()) == 3


@pytest.mark.parametrize("mode", ["External", "Auto", "Recommend"])
def test_a_pool_that_another_owns_is_never_written(mode: str) -> None:
    wish = colocated(autoscaling={"mode": mode}, slo={"ttft": "1s", "tpot": "40ms"})
    fleet = fleet_with(5, wish | {"workers": {"minReplicas": 1, "maxReplicas": 3}})
    assert fleet.objects[(names.WORKER_POOLS, "chat-workers")]["spec"]["replicas"] == 5
    assert len(fleet.pods()) == 3
    assert "5 asked for, 3 within" in fleet.condition("WorkersReady")["message"]
