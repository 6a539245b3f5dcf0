"""Limits, targets, boldness, demotion and router of the manifest change what is simulated."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.manifests import H100, chat
from tests.cli.replays import gpu_hours, replayed, row


def test_no_policy_leaves_the_manifests_limits_and_the_recommendation_says_what_they_cost(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two prefill workers are too few for 60 requests a second."""
    tight = chat(prefill={"minReplicas": 2, "maxReplicas": 2, "template": H100})
    found = replayed(capsys, tmp_path, tight)
    for one in found["policies"]:
        assert one["gpuHoursPrefill"] == pytest.approx(2 * 270 / 3600, rel=0.02)
    advice = found["recommendation"]
    assert advice["limitsHeldBack"] and advice["prefill"]["maxReplicas"] > 2
    assert advice["jointAttainment"] > row(found)["jointAttainment"] + 0.05


def test_no_policy_leaves_the_gpu_budget(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The peak wants 8; a worker may drain a little beyond its order."""
    found = replayed(capsys, tmp_path, chat(gpuBudget=5))
    for one in found["policies"]:
        assert gpu_hours(one) <= 5 * 270 / 3600 * 1.02
    assert found["recommendation"]["limitsHeldBack"]


def test_tighter_targets_cost_more(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    loose = replayed(capsys, tmp_path, chat(slo={"ttft": "2s", "tpot": "60ms"}), "--policies", "tandem")
    tight = replayed(capsys, tmp_path, chat(slo={"ttft": "250ms", "tpot": "12ms"}), "--policies", "tandem")
    assert tight["recommendation"]["gpuHours"] > loose["recommendation"]["gpuHours"]


def test_more_headroom_costs_more(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    little = replayed(capsys, tmp_path, chat(autoscaling={"headroomPercent": 0}), "--policies", "tandem")
    much = replayed(capsys, tmp_path, chat(autoscaling={"headroomPercent": 200}), "--policies", "tandem")
    assert much["recommendation"]["gpuHours"] > 1.3 * little["recommendation"]["gpuHours"]


@pytest.mark.parametrize(
    ("frugal", "generous"),
    [
        ({"demandPercentile": 50}, {"demandPercentile": 99}),
        ({"scaleDown": {"confirm": "5s"}}, {"scaleDown": {"confirm": "4m"}}),
    ],
    ids=["demandPercentile", "scaleDown.confirm"],
)
def test_bolder_settings_cost_less(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, frugal: dict[str, Any], generous: dict[str, Any]
) -> None:
    # Long enough for the service's own demand to be known: until then a prior stands in for the percentile.
    choice = ("--policies", "tandem", "--duration", "25m")
    cost = [
        gpu_hours(row(replayed(capsys, tmp_path, chat(autoscaling=scaling), *choice)))
        for scaling in (frugal, generous)
    ]
    assert cost[0] < cost[1]


def test_late_demotion_saves_prompts_where_workers_are_short(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Three prefill workers have just not enough room: with it, long prompts give way instead of all being late."""
    short = {"minReplicas": 3, "maxReplicas": 3, "template": H100}
    off = replayed(capsys, tmp_path, chat(prefill=short), "--policies", "static")
    on = replayed(
        capsys, tmp_path, chat(prefill=short, engine={"lateDemotion": True}), "--policies", "static"
    )
    assert row(on, "static")["ttftAttainment"] > row(off, "static")["ttftAttainment"]


def test_a_random_router_is_worse_than_one_that_looks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    attained = {}
    for policy in ("power_of_two", "random"):
        manifest = chat(
            router={"policy": policy}, prefill={"minReplicas": 4, "maxReplicas": 4, "template": H100}
        )
        found = replayed(capsys, tmp_path, manifest, "--policies", "static")
        attained[policy] = row(found, "static")["ttftAttainment"]
    assert attained["random"] < attained["power_of_two"]


def test_the_cold_start_is_the_manifests_unless_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    manifest = chat(autoscaling={"coldStart": "90s"})
    assert replayed(capsys, tmp_path, manifest, "--policies", "static")["coldStartSeconds"] == 90.0
    given = replayed(capsys, tmp_path, manifest, "--policies", "static", "--cold-start", "2m")
    assert given["coldStartSeconds"] == 120.0
