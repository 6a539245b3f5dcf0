"""Exit status 2, one line that names what to change, and never a traceback."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem_autoscaler.cli.main import main
from tests.cli.manifests import H100, chat, written

TRACE = ("--trace", "azure-conv-2023", "--duration", "1m", "--policies", "static")
Said = Callable[..., str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*arguments: str) -> str:
        assert main(["replay", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1
        return captured.err

    return run


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (chat(slo={"ttft": "1 second", "tpot": "40ms"}), ("spec.slo.ttft",)),
        (chat(slo={"ttft": "0s", "tpot": "40ms"}), ("slo.ttft", "above zero")),
        (chat(slo=None), ("spec.slo", "missing")),
        (chat(prefill={"minReplicas": "many"}), ("spec.prefill.minReplicas",)),
        (chat(prefill={"minReplicas": 3, "maxReplicas": 2}), ("spec.prefill", "3", "2")),
        (chat(prefill={"maxReplicas": 0, "minReplicas": 0}), ("spec.prefill.maxReplicas",)),
        (chat(decode=None), ("spec.decode", "missing")),
        (chat(replicas=3), ("spec.replicas",)),
        (chat(gpuBudget=1), ("gpuBudget", "1", "2")),
        (chat(mode="Colocated", prefill=None, decode=None), ("Colocated", "Disaggregated only")),
        (chat(slo={"ttft": "1s", "tpot": "1ms"}), ("spec.slo.tpot", "cannot be met")),
        (chat(slo={"ttft": "5ms", "tpot": "40ms"}), ("spec.slo.ttft", "cannot be met")),
        (chat() | {"metadata": {}}, ("metadata.name",)),
        (chat() | {"metadata": "chat"}, ("metadata",)),
        (chat() | {"spec": ["a", "list"]}, ("spec",)),
        (chat() | {"apiVersion": "tandem.dev/v1"}, ("tandem.dev/v1",)),
        ({"kind": "Deployment"}, ("no InferenceService",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_in_the_manifest(said: Said, tmp_path: Path, manifest: Any, words: tuple[str, ...]) -> None:
    error = said("-f", written(tmp_path, manifest), *TRACE)
    assert all(word in error for word in words), error


def test_two_services_in_one_file(said: Said, tmp_path: Path) -> None:
    assert "2 InferenceServices" in said("-f", written(tmp_path, chat(), chat()), *TRACE)


def test_a_file_that_is_missing_or_no_yaml(said: Said, tmp_path: Path) -> None:
    assert "nowhere.yaml" in said("-f", str(tmp_path / "nowhere.yaml"), *TRACE)
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: InferenceService\nspec: {mode: [}\n")
    assert "broken.yaml, line 2" in said("-f", str(broken), *TRACE)
    broken.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in said("-f", str(broken), *TRACE)
    assert "Is a directory" in said("-f", str(tmp_path), *TRACE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trace", "azure-2029"], ("azure-2029", "azure-conv-2023")),
        (["--trace", "nowhere.csv"], ("nowhere.csv",)),
        (["--trace", "prometheus:localhost:9090"], ("prometheus:http://host:9090",)),
        (["--trace", "prometheus:http://localhost:1?rage=1h"], ("rage",)),
        (["--trace", "prometheus:http://localhost:1?range=soon"], ("soon", "duration")),
        (["--trace", "prometheus:http://localhost:1?end=soon"], ("soon",)),
        (
            ["--trace", "prometheus:http://localhost:1"],
            ("http://localhost:1", "cannot be reached", "refused"),
        ),
        (["--trace", "idle-spike", "--duration", "1"], ("no request",)),
        (["--trace", "azure-conv-2023", "--hardware", "b300"], ("b300", "h100-llama-8b")),
        (["--trace", "azure-conv-2023", "--policies", "tandm"], ("tandm", "constant_headroom")),
        (["--trace", "azure-conv-2023", "--policies", ","], ("--policies",)),
        (["--trace", "azure-conv-2023", "--policies", "tandem-without-levers"], ("tandem-without-levers",)),
        ([*TRACE, "--plot", "/nowhere/at/all.png"], ("--plot", "/nowhere/at/all.png")),
        ([*TRACE, "--plot", "replay.docx"], ("--plot", "replay.docx")),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_on_the_command_line(
    said: Said, tmp_path: Path, arguments: list[str], words: tuple[str, ...]
) -> None:
    error = said("-f", written(tmp_path, chat()), *arguments)
    assert all(word in error for word in words), error


def test_in_a_line_of_the_csv(said: Said, tmp_path: Path) -> None:
    trace = tmp_path / "requests.csv"
    trace.write_text("timestamp,prompt_tokens,output_tokens\n0,100,10\n1,many,10\n")
    error = said("-f", written(tmp_path, chat()), "--trace", str(trace))
    assert "requests.csv, line 3" in error and "many" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scale", "0"],
        ["--duration", "soon"],
        ["--cold-start", "-5s"],
        ["--scale", "nan"],
        ["--duration", "inf"],
    ],
    ids=" ".join,
)
def test_in_a_flags_value(capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", "-f", written(tmp_path, chat()), *TRACE, *arguments])
    assert ended.value.code == 2 and arguments[0] in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("missing", ["numba", "matplotlib"])
def test_a_simulator_that_is_not_installed(tmp_path: Path, missing: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from tandem_autoscaler.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "replay",
        "-f",
        written(tmp_path, chat(prefill={"template": H100})),
    ]
    done = subprocess.run([*command, *TRACE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "kubectl tandem: replay needs the simulator: pip install 'tandem-inference[sim]'\n"
