"""The schedule found is really that good, as often as one asks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tandem_autoscaler.simulator import hindsight
from tandem_autoscaler.simulator.fleet import FleetSettings
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.policies.static import Static, best
from tandem_autoscaler.simulator.run import Result, simulate
from tandem_autoscaler.simulator.trace import Trace

HARDWARE = Hardware("small", 2, (0.02, 1e-4, 0.0), (0.01, 1e-4, 1e-7), kv_tokens=300_000)
EVALUATIONS = 40


def busy_in_the_middle() -> Trace:
    """Ten minutes at 4 requests/s, of which three in the middle are at 20."""
    random = np.random.default_rng(5)
    parts = [(0.0, 240.0, 4.0), (240.0, 420.0, 20.0), (420.0, 600.0, 4.0)]
    arrival = np.sort(
        np.concatenate(
            [random.uniform(start, end, random.poisson(rate * (end - start))) for start, end, rate in parts]
        )
    )
    prompt = random.choice([300.0, 1000.0, 3000.0], len(arrival))
    return Trace("busy-middle", arrival, prompt, np.full(len(arrival), 80.0), 600.0, warm_up_seconds=60.0)


@pytest.fixture(scope="module")
def problem() -> hindsight.Problem:
    return hindsight.Problem(
        busy_in_the_middle(), HARDWARE, FleetSettings(1.0, 0.03, cold_start_seconds=40.0)
    )


@pytest.fixture(scope="module")
def curve(problem: hindsight.Problem) -> hindsight.Curve:
    return hindsight.curve(problem, evaluations=EVALUATIONS)


def test_a_run_of_the_schedule_gives_the_attainment_and_the_cost_that_were_reported(
    problem: hindsight.Problem, curve: hindsight.Curve
) -> None:
    for k in range(len(curve.attainment)):
        again = problem.play(curve.prefill[k], curve.decode[k])
        assert again.attainment.joint == pytest.approx(curve.attainment[k], abs=1e-12)
        assert again.gpu_hours == pytest.approx(curve.gpu_hours[k], rel=1e-12)


def test_the_curve_costs_more_the_more_it_attains(curve: hindsight.Curve) -> None:
    assert (np.diff(curve.attainment) > 0).all()
    assert (np.diff(curve.gpu_hours) > 0).all()
    assert curve.attainment[-1] > 0.99


def test_hindsight_is_cheaper_than_the_best_fixed_fleet(
    problem: hindsight.Problem, curve: hindsight.Curve
) -> None:
    def play(prefill: int, decode: int) -> Result:
        return simulate(problem.trace, HARDWARE, problem.settings, Static(prefill, decode), prefill, decode)

    fixed = play(*best(lambda prefill, decode: play(prefill, decode).attainment.joint, 10, 0.99))
    as_good = curve.gpu_hours[curve.attainment >= fixed.attainment.joint]
    assert as_good.min() < 0.8 * fixed.gpu_hours


def test_the_same_problem_gives_the_same_curve_and_is_searched_once(
    problem: hindsight.Problem, curve: hindsight.Curve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = hindsight.curve(problem, evaluations=EVALUATIONS, folder=tmp_path)
    assert kept.gpu_hours.tolist() == curve.gpu_hours.tolist()
    assert kept.prefill.tolist() == curve.prefill.tolist()
    monkeypatch.setattr(hindsight, "simulate", lambda *args: pytest.fail("searched again"))
    again = hindsight.curve(problem, evaluations=EVALUATIONS, folder=tmp_path)
    assert again.decode.tolist() == kept.decode.tolist()


def test_whatever_the_curve_rests_on_makes_another_key(problem: hindsight.Problem) -> None:
    trace, settings = problem.trace, problem.settings
    others = [
        replace(problem, trace=replace(trace, prompt=trace.prompt + 1.0)),
        replace(problem, trace=replace(trace, warm_up_seconds=0.0)),
        replace(problem, hardware=replace(HARDWARE, gpus=1)),
        replace(problem, settings=replace(settings, cold_start_seconds=60.0)),
        replace(problem, settings=replace(settings, router="random")),
        replace(problem, settings=replace(settings, ttft_seconds=2.0)),
    ]
    keys = {problem.key(40), problem.key(41), *(other.key(40) for other in others)}
    assert len(keys) == 2 + len(others)
    # What hindsight does without does not matter to it.
    assert replace(problem, settings=replace(settings, late_demotion=True)).key(40) == problem.key(40)


def test_a_search_around_one_attainment_is_no_dearer_there_and_is_kept_apart(
    problem: hindsight.Problem, curve: hindsight.Curve
) -> None:
    asked = float(curve.attainment[curve.attainment >= 0.97].min())
    around = hindsight.curve(problem, evaluations=EVALUATIONS, around=asked)
    cheapest = [found.gpu_hours[found.attainment >= asked].min() for found in (curve, around)]
    assert cheapest[1] <= cheapest[0]
    assert problem.key(40, 0.99) not in (problem.key(40), problem.key(40, 0.98))


def test_another_cold_start_costs_what_the_same_schedule_costs_there(
    problem: hindsight.Problem, curve: hindsight.Curve
) -> None:
    longer = replace(problem, settings=replace(problem.settings, cold_start_seconds=100.0))
    priced = curve.gpu_hours_at(problem, 100.0)
    for k in (0, len(priced) - 1):
        played = longer.play(curve.prefill[k], curve.decode[k])
        assert played.gpu_hours == pytest.approx(priced[k], rel=0.01)
        assert played.attainment.joint >= curve.attainment[k] - 0.002
