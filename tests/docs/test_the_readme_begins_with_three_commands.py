"""The section that e2e/scenarios runs: three commands that refer to files of the repository and to one service."""

import re
import shlex

import pytest
import yaml

from e2e.scenarios.first_hour import HEADING, README, nested, three_commands
from tests.docs.pages import ROOT


def section(*lines: str) -> str:
    return "\n".join(
        ["# Tandem", HEADING, "", "Words.", "```bash", *lines, "```", "## Next", "```", "no", "```"]
    )


def test_they_install_apply_and_ask() -> None:
    install, apply, ask = three_commands(README.read_text())
    assert install.startswith("helm install ") and " --wait" in install
    assert apply.startswith("kubectl apply -f examples/")
    assert "curl " in ask


def test_they_name_what_exists() -> None:
    install, apply, ask = three_commands(README.read_text())
    assert (ROOT / shlex.split(install)[3] / "Chart.yaml").is_file()
    manifest = yaml.safe_load((ROOT / shlex.split(apply)[3]).read_text())
    name, model = manifest["metadata"]["name"], manifest["spec"]["model"]["name"]
    assert f"infsvc/{name}" in apply
    assert f"service/{name}" in ask
    assert f'"model": "{model}"' in ask
    body = re.search(r"-d '(.*)'", ask)
    assert body and yaml.safe_load(body[1])["max_tokens"] == 16


def test_they_are_found_by_their_heading() -> None:
    assert three_commands(section("a", "b \\", "  c", "d")) == ("a", "b    c", "d")


@pytest.mark.parametrize("lines", [(), ("a", "b"), ("a", "b", "c", "d")])
def test_there_are_three(lines: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="its name says three"):
        three_commands(section(*lines))


def test_a_readme_without_the_section_is_told() -> None:
    with pytest.raises(ValueError, match="no section"):
        three_commands("# Tandem\n")


def test_settings_become_a_file_of_values() -> None:
    assert nested({"image.tag": "dev", "image.repository": "r", "x": "1"}) == {
        "image": {"tag": "dev", "repository": "r"},
        "x": "1",
    }
