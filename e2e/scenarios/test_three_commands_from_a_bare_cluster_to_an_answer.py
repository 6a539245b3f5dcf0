"""A user's first hour: the README's three commands, as they stand there, on a cluster that has nothing of Tandem."""

import json

import pytest
import yaml

from e2e.demo.stage import LOCAL_IMAGES, ROOT, Stage
from e2e.scenarios.first_hour import README, nested, three_commands
from e2e.scenarios.terminal import Terminal

TRANSCRIPT = ROOT / "build" / "e2e" / "three-commands.txt"


@pytest.mark.timeout(1500)
def test_the_three_commands_of_the_readme_end_in_an_answer(bare: Stage, terminal: Terminal) -> None:
    (terminal.folder / "images.yaml").write_text(yaml.safe_dump(nested(LOCAL_IMAGES)))
    try:
        for command in three_commands(README.read_text()):
            said = terminal.run(command, most_seconds=1000)
        answer = json.loads(said[said.index('{"') :])
        assert answer["choices"][0]["text"]
        assert answer["usage"]["completion_tokens"] == 16
    finally:
        TRANSCRIPT.parent.mkdir(parents=True, exist_ok=True)
        TRANSCRIPT.write_text(terminal.transcript)
        bare.kubectl(
            "delete", "infsvc", "chat", "-n", "default", "--ignore-not-found", "--timeout=180s", check=False
        )
