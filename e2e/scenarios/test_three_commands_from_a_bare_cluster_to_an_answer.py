"""A user's first hour: the README's three commands, as they stand there, on a cluster that has nothing of Tandem."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.cluster import binaries
from e2e.demo.stage import LOCAL_IMAGES, NAMESPACE, RELEASE, ROOT, Stage
from e2e.scenarios.first_hour import README, nested, three_commands

TRANSCRIPT = ROOT / "build" / "e2e" / "three-commands.txt"


@pytest.fixture
def bare(stage: Stage) -> Stage:
    """The cluster without chart, without CRDs and so without any InferenceService."""
    if stage.current:
        pytest.skip("it would take Tandem off a cluster that is somebody's")
    stage.run("helm", "uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait")
    stage.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
    stage.kubectl("delete", "crd", "-l", "app.kubernetes.io/part-of=tandem", "--timeout=300s")
    return stage


@pytest.mark.timeout(1500)
def test_the_three_commands_of_the_readme_end_in_an_answer(bare: Stage, tmp_path: Path) -> None:
    # The user's folder: what a clone has, and the file that says where the images are.
    for part in ("helm", "examples"):
        (tmp_path / part).symlink_to(ROOT / part)
    (tmp_path / "images.yaml").write_text(yaml.safe_dump(nested(LOCAL_IMAGES)))
    binaries.ensure(["kubectl", "helm"])
    environment = {
        **os.environ,
        "KUBECONFIG": bare.kubeconfig,
        "PATH": f"{binaries.on_path()}{os.pathsep}{os.environ['PATH']}",
        "no_proxy": "127.0.0.1",
    }
    transcript = ""
    try:
        for command in three_commands(README.read_text()):
            status, said = run(command, folder=tmp_path, environment=environment, most_seconds=1000)
            transcript += f"$ {command}\n{said}\n"
            assert status == 0, transcript
        answer = json.loads(said[said.index('{"') :])
        assert answer["choices"][0]["text"]
        assert answer["usage"]["completion_tokens"] == 16
    finally:
        TRANSCRIPT.parent.mkdir(parents=True, exist_ok=True)
        TRANSCRIPT.write_text(transcript)
        bare.kubectl(
            "delete", "infsvc", "chat", "-n", "default", "--ignore-not-found", "--timeout=180s", check=False
        )
        bare.install_chart()  # as the other scenarios expect it


def run(command: str, *, folder: Path, environment: dict[str, str], most_seconds: float) -> tuple[int, str]:
    """Exit status and output of one line in bash; what it left in the background ends with it."""
    log = folder / "output"
    with log.open("w") as sink:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder, env=environment, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(most_seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
    return status, log.read_text()
