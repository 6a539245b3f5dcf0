"""`python -m tandem_autoscaler.benchmark` on a small part."""

import json
from pathlib import Path

import pytest

from tandem_autoscaler.benchmark.__main__ import main
from tandem_autoscaler.benchmark.case import OUTAGES, Case, around_peak, outages, stage
from tandem_autoscaler.benchmark.contenders import DYNAMO, OURS, contenders
from tandem_autoscaler.benchmark.play import play
from tandem_autoscaler.benchmark.row import KEYS
from tandem_autoscaler.benchmark.suite import (
    SETS,
    TRACES,
    Job,
    Selection,
    jobs,
    simulation,
    sweep_jobs,
    tuning_cases,
)
from tandem_autoscaler.simulator.traces import named

TRACE = "mooncake-conv"  # the one with the fewest requests


def test_the_rows_have_the_keys_that_readers_rely_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two policies, one seed, sweeps and picture included; tuning and hindsight are left out for time."""
    chosen = [
        "--traces",
        TRACE,
        "--policies",
        "static",
        "constant_headroom",
        "--sets",
        "main",
        "--seeds",
        "1",
    ]
    assert (
        main(
            [*chosen, "--quick", "--no-tuning", "--no-hindsight", "--processes", "1", "--out", str(tmp_path)]
        )
        == 0
    )
    rows = json.loads((tmp_path / "policies.json").read_text())
    assert {row["policy"] for row in rows} == {"static", "constant_headroom"}
    for row in rows:
        assert set(KEYS) <= set(row)
        assert 0.0 <= row["joint_attainment"] <= min(row["ttft_attainment"], row["tpot_attainment"]) <= 1.0
        assert row["gpu_hours_prefill"] > 0 and row["gpu_hours_decode"] > 0
    assert (tmp_path / f"pareto-{TRACE}.png").read_bytes().startswith(b"\x89PNG")
    assert len(json.loads((tmp_path / "sweeps.json").read_text())) > len(rows)
    assert "constant_headroom" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--traces", "there is no trace 'nonsense'"),
        ("--policies", "there is no policy"),
        ("--sets", "there is no set"),
    ],
)
def test_a_name_that_there_is_not_is_one_sentence(
    option: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option, "nonsense"]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--hindsight-around", "100", "50 to below 100 %"),
        ("--hindsight-requests", "0", "at least one request"),
        ("--hindsight-seeds", "0", "at least one seed"),
    ],
)
def test_a_search_that_makes_no_sense_is_one_sentence(
    option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option, value]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_every_trace_of_the_issue_and_every_contender_is_in_the_main_set() -> None:
    asked = jobs(Selection(sets=("main",)), {})
    assert {job.case.trace for job in asked} == set(TRACES)
    assert {OURS, DYNAMO, "static", "hpa", "kpa", "keda", "constant_headroom"} <= {
        job.case.policy for job in asked
    }
    for trace in TRACES:
        seeds = {job.case.seed for job in asked if job.case.trace == trace and job.case.policy == OURS}
        assert len(seeds) >= (5 if trace not in ("azure-conv-2024", "servegen-deepseek-r1") else 2)


def test_reported_seeds_are_never_those_of_the_tuning() -> None:
    selection = Selection()
    reported = {job.case.seed for job in [*jobs(selection, {}), *sweep_jobs(selection, [])]}
    assert reported.isdisjoint({case.seed for case in tuning_cases(selection)})


def test_a_sweep_does_not_repeat_what_is_reported() -> None:
    reported = jobs(Selection(sets=("main",)), {})
    swept = {job.case for job in sweep_jobs(Selection(), reported)}
    assert swept and swept.isdisjoint({job.case for job in reported})


def test_all_sets_have_jobs_and_no_job_twice() -> None:
    for name in SETS:
        made = jobs(Selection(sets=(name,)), {})
        assert made
        assert len({job.case for job in made}) == len(made)


def test_tuned_constants_are_reported_beside_the_defaults() -> None:
    tuned = {(TRACE, "hpa"): {"scale": 0.5}}
    made = jobs(Selection(traces=(TRACE,), policies=("hpa",), sets=("main",), seeds=1), tuned)
    assert [(dict(job.case.constants), job.case.tuned) for job in made] == [
        (dict(contenders()["hpa"].default), False),
        ({"scale": 0.5}, True),
    ]


def test_constants_that_are_tuned_and_published_are_simulated_once_but_a_sought_fleet_for_itself() -> None:
    case = Case(TRACE, "hpa").with_constants({"scale": 1.0}, tuned=False)
    assert simulation(case.with_constants({"scale": 1.0}, tuned=True)) == case
    assert simulation(case.with_constants({"scale": 0.5}, tuned=True)) != case
    static = Case(TRACE, "static").with_constants({}, tuned=True)
    assert simulation(static) != simulation(static.with_constants({}, tuned=False))


def test_a_case_of_two_sets_is_run_once_and_reported_in_both(tmp_path: Path) -> None:
    chosen = ["--traces", TRACE, "--policies", OURS, "--sets", "main", "ablation", "--seeds", "1"]
    rest = ["--no-tuning", "--no-sweeps", "--no-hindsight", "--processes", "1", "--out", str(tmp_path)]
    assert main([*chosen, *rest]) == 0
    first, second = json.loads((tmp_path / "policies.json").read_text())
    assert (first["set"], second["set"]) == ("main", "ablation")
    assert first | {"set": ""} == second | {"set": ""}


def test_a_model_error_changes_the_fleet_and_not_what_the_policy_believes() -> None:
    on = stage(Case(TRACE, "constant_headroom", model_error=0.2), {})
    assert on.hardware.prefill_seconds(1000.0) == pytest.approx(
        1.2 * on.believed.hardware.prefill_seconds(1000.0)
    )
    assert on.hardware.iteration_seconds(8, 9e4) == pytest.approx(
        1.2 * on.believed.hardware.iteration_seconds(8, 9e4)
    )


def test_outages_lie_within_the_trace_and_last_as_long_as_they_say() -> None:
    trace = named(TRACE, 1, scale=2.0)
    assert outages("", trace) is None
    for name, seconds in OUTAGES.items():
        silent = outages(name, trace)
        if silent is not None:
            assert all(end - begin == pytest.approx(seconds) for begin, end in silent.silent)
            assert (
                trace.warm_up_seconds <= silent.silent[0][0]
                and silent.silent[-1][1] <= trace.duration_seconds
            )
    flapping = outages("flapping", trace)
    assert flapping is not None
    silent_share = sum(end - begin for begin, end in flapping.silent) / (
        trace.duration_seconds - trace.warm_up_seconds
    )
    assert silent_share == pytest.approx(0.5, abs=0.02)


def test_the_part_around_the_peak_is_a_trace_of_its_own() -> None:
    trace = named("slow-diurnal", 1)
    part = around_peak(trace, 3600.0)
    assert part.duration_seconds == 3600.0
    assert part.arrival[0] >= 0.0 and part.arrival[-1] <= 3600.0
    assert len(part) > len(trace) / 2


def test_the_same_case_gives_the_same_row() -> None:
    job = Job("main", Case(TRACE, "constant_headroom").with_constants({"headroom": 1.25}, tuned=False))
    assert play(job) == play(job)
