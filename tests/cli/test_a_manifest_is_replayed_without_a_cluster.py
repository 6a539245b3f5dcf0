"""Issue 4, item 7: manifest and trace in; table, documents, picture and recommendation out."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from tandem_autoscaler.cli.main import main
from tandem_autoscaler.cli.replay import worker
from tandem_autoscaler.cli.replay.manifest import read
from tandem_autoscaler.cli.replay.play import Stage, play
from tandem_autoscaler.simulator.policies.tandem import TandemPolicy
from tandem_autoscaler.simulator.run import simulate
from tandem_autoscaler.simulator.traces import named
from tests.cli.manifests import H100, chat, written
from tests.cli.replays import SHORT, replayed, row

REPOSITORY = Path(__file__).parents[2]
RUSH = REPOSITORY / "examples/traces/chat-rush.csv"


def test_four_policies_are_compared_by_default_and_in_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = replayed(capsys, tmp_path, chat())
    assert [one["policy"] for one in found["policies"]] == ["tandem", "constant_headroom", "hpa", "static"]
    assert found["hardware"] == {"name": "h100-llama-8b", "gpus": 1}
    for one in found["policies"]:
        assert 0 <= one["jointAttainment"] <= min(one["ttftAttainment"], one["tpotAttainment"]) <= 1
        assert one["gpuHoursPrefill"] > 0 and one["gpuHoursDecode"] > 0
    for role in ("prefill", "decode"):
        advice = found["recommendation"][role]
        assert 1 <= advice["minReplicas"] <= advice["maxReplicas"]
        assert "tokens/s" in advice["why"]


def test_the_same_seed_gives_the_same_answer_in_json_and_yaml(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = replayed(capsys, tmp_path, chat(), "--policies", "tandem")
    main(["replay", "-f", written(tmp_path, chat()), *SHORT, "-o", "yaml", "--policies", "tandem"])
    assert yaml.safe_load(capsys.readouterr().out) == first


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_the_terminal_and_says_what_to_write_into_the_manifest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["replay", "-f", written(tmp_path, chat()), *SHORT, "--policies", "tandem,static"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns and not any("…" in line for line in lines)
    drawn = [line.split()[0] for line in lines if set(line) & set("▄▅▆▇█")]
    assert drawn == ["tandem", "static", "tandem", "static", "requests/min"]
    for role in ("prefill", "decode"):
        assert any(role in line and "minReplicas:" in line and "maxReplicas:" in line for line in lines)


def test_the_example_trace_runs_with_the_example_manifest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    manifest = REPOSITORY / "examples/llama-8b-disaggregated.yaml"
    picture = tmp_path / "replay.png"
    status = main(
        ["replay", "-f", str(manifest), "--trace", str(RUSH), "--hardware", "h100-llama-8b", "--scale", "20",
         "--policies", "tandem,static", "--plot", str(picture)]
    )  # fmt: skip
    assert status == 0 and str(picture) in capsys.readouterr().out.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_where_load_rises_faster_than_workers_start_the_recommended_minimum_keeps_the_promise(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A rush of four times the load within two and a half minutes, and a cold start of five."""
    rush = (
        "--trace",
        str(RUSH),
        "--scale",
        "20",
        "--duration",
        "12m",
        "--cold-start",
        "5m",
        "--policies",
        "tandem",
    )
    first = replayed(capsys, tmp_path, chat(), *rush)
    advice = first["recommendation"]
    assert row(first)["ttftAttainment"] < 0.95
    assert advice["keepsPromise"] and advice["prefill"]["minReplicas"] >= 3

    limits = {role: {**advice[role], "template": H100} for role in ("prefill", "decode")}
    for role in limits.values():
        del role["why"]
    again = replayed(capsys, tmp_path, chat(**limits), *rush)
    assert row(again)["ttftAttainment"] >= 0.95 and row(again)["tpotAttainment"] >= 0.95


def test_what_runs_is_the_benchmarks_own_tandem(tmp_path: Path) -> None:
    """Order by order, where the manifest says what the benchmark assumes."""
    role = {"minReplicas": 1, "maxReplicas": 48, "template": H100}
    manifest = chat(
        prefill=role, decode=role, engine={"maxSequences": 256, "lateDemotion": True},
        autoscaling={"scaleDown": {"confirm": "30s"}},
    )  # fmt: skip
    wish = read(written(tmp_path, manifest))
    trace = named("azure-conv-2023", 1, scale=12, duration=300)
    stage = Stage.of(wish, worker.of(wish, None), trace, cold_start_seconds=40.0, seed=1)
    ours = play(stage, "tandem")
    theirs = simulate(
        trace,
        stage.worker.hardware,
        stage.settings,
        TandemPolicy(confirm_seconds=30.0),
        *(stage.start[role] for role in ("prefill", "decode")),
    )
    assert np.array_equal(theirs.log[1:], ours.log[1:])
    assert theirs.attainment == ours.attainment and ours.counts.actions > 2


def test_the_share_of_prompts_that_nobody_can_serve_in_time_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Some of Kimi's prompts have 100,000 tokens."""
    arguments = ("--trace", "mooncake-conv", "--scale", "1", "--policies", "static")
    found = replayed(capsys, tmp_path, chat(), *arguments)
    assert 0.05 < found["infeasibleShare"] == found["policies"][0]["infeasibleShare"] < 0.5


def test_what_the_simulator_does_not_know_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    manifest = chat(
        router={"policy": "cache_aware"},
        autoscaling={"mode": "External"},
        decode={"minReplicas": 0, "maxReplicas": 8, "template": H100},
    )
    notes = " ".join(replayed(capsys, tmp_path, manifest, "--policies", "static")["notes"])
    for said in (
        "cache_aware is replayed as power_of_two",
        "External is replayed as Auto",
        "minReplicas 0",
        "prefix",
    ):
        assert said in notes
