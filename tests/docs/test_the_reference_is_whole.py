"""docs/reference.md: every field of both kinds, with type, default, meaning and example, from the models alone."""

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, Field

from tandem_api import reference
from tandem_api.inference_service import InferenceServiceSpec, Wire
from tandem_api.worker_pool import WorkerPoolSpec
from tests.docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples" / "reference").glob("*.yaml"))
MANIFESTS = [yaml.safe_load(path.read_text()) for path in EXAMPLES]


def test_every_field_has_an_example() -> None:
    assert reference.undocumented(MANIFESTS) == []


def test_a_field_without_an_example_is_told() -> None:
    without = [manifest for manifest in MANIFESTS if manifest["kind"] != "WorkerPool"]
    assert "WorkerPool.spec.replicas" in reference.undocumented(without)


@pytest.mark.parametrize("model", [InferenceServiceSpec, WorkerPoolSpec])
def test_every_field_of_the_models_is_on_the_page(model: type[BaseModel]) -> None:
    page = reference.rendered(MANIFESTS)
    fields = {field.alias or name for name, field in model.model_fields.items()}
    assert {field for field in fields if f"| `{field}` |" not in page} == set()


def test_types_defaults_and_bounds_are_those_of_the_models() -> None:
    page = reference.rendered(MANIFESTS)
    assert "| `percentile` | integer, 50 to 99 | `95` |" in page
    assert "| `ttft` | duration | required | Time to first token. | `1s` |" in page
    assert "| `deadline` | duration | `300s` |" in page
    assert "* minReplicas must not exceed maxReplicas" in page


def test_a_field_without_a_meaning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec(Wire):
        """A spec with a field that nobody explained."""

        told: int = Field(description="Explained.")
        untold: int

    monkeypatch.setattr(reference, "WorkerPoolSpec", Spec)
    with pytest.raises(ValueError, match=r"WorkerPool spec\.untold has no description"):
        reference.rendered(MANIFESTS)


def test_a_stale_page_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "reference.md"
    arguments = [str(page), "--examples", *map(str, EXAMPLES)]
    assert reference.main([*arguments, "--check"]) == 1
    assert "run `make generate`" in capsys.readouterr().err
    assert reference.main(arguments) == 0
    assert reference.main([*arguments, "--check"]) == 0
    page.write_text(page.read_text().replace("Time to first token.", ""))
    assert reference.main([*arguments, "--check"]) == 1
