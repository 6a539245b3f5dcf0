"""The planner's own Python environment: pinned, made once, and never left half made."""

from pathlib import Path

import pytest

from tandem_autoscaler.benchmark.dynamo import environment
from tandem_autoscaler.benchmark.dynamo.environment import Unavailable


@pytest.fixture
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A requirements file of the test's own, and an empty cache."""
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "requirements.txt"
    monkeypatch.setattr(environment, "REQUIREMENTS", path)
    return path


def test_every_requirement_is_pinned() -> None:
    lines = environment.REQUIREMENTS.read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in wanted if "==" not in line] == []
    assert "ai-dynamo==1.6.1" in wanted


def test_a_changed_pin_is_another_environment(requirements: Path) -> None:
    requirements.write_text("ai-dynamo==1.6.1\n")
    before = environment.location()
    requirements.write_text("ai-dynamo==1.6.2\n")
    assert environment.location() != before
    assert environment.location().parent == before.parent


def test_what_cannot_be_installed_is_one_sentence_and_leaves_nothing(requirements: Path) -> None:
    requirements.write_text(f"{requirements.parent}/absent-1.0-py3-none-any.whl\n")
    with pytest.raises(Unavailable, match=r"cannot be installed here: .*absent-1\.0") as said:
        environment.planner_command()
    assert "\n" not in str(said.value)
    assert [
        path.name for path in environment.location().parent.iterdir() if not path.name.startswith(".")
    ] == []


def test_what_installs_but_does_not_load_is_unavailable_too(requirements: Path) -> None:
    requirements.write_text("")
    with pytest.raises(Unavailable, match="does not load here: ModuleNotFoundError"):
        environment.ensure()
    assert not environment.location().exists()


def test_a_cache_that_cannot_be_written_is_one_sentence(
    requirements: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements.write_text("")
    monkeypatch.setenv("TANDEM_CACHE", str(requirements))  # a file
    with pytest.raises(Unavailable, match="no place in the cache"):
        environment.ensure()
