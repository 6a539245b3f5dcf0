from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from tandem_api import crd
from tandem_api.inference_service import InferenceServiceSpec
from tandem_api.reasons import MEANING, Reason

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("directory", ["crds/generated", "helm/tandem/files/crds"])
def test_the_committed_crds_are_what_the_models_say(directory: str) -> None:
    for name, text in crd.rendered().items():
        assert (ROOT / directory / name).read_text() == text, f"run `make generate` ({directory}/{name})"


def test_every_reason_has_a_meaning_and_a_remedy() -> None:
    assert set(MEANING) == set(Reason)
    assert all(meaning and remedy for meaning, remedy in MEANING.values())


def _nodes(node: Any) -> Any:
    if isinstance(node, dict):
        yield node
        for child in node.values():
            yield from _nodes(child)
    elif isinstance(node, list):
        for child in node:
            yield from _nodes(child)


def test_the_schemas_are_structural() -> None:
    for text in crd.rendered().values():
        schema = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for node in _nodes(schema):
            assert "$ref" not in node and "anyOf" not in node
            assert node.get("additionalProperties") is not False


def test_a_model_that_a_structural_schema_cannot_say_fails_the_build() -> None:
    class Ambiguous(BaseModel):
        value: int | str

    with pytest.raises(ValueError, match="no alternatives"):
        crd.structural_schema(Ambiguous)


def test_no_scale_path_points_nowhere() -> None:
    definition = crd.worker_pool_crd()["spec"]["versions"][0]
    schema = definition["schema"]["openAPIV3Schema"]
    for path in definition["subresources"]["scale"].values():
        node = schema
        for part in path.strip(".").split("."):
            node = node["properties"][part]


def test_the_short_names_of_other_projects_are_left_alone() -> None:
    taken = {"isvc", "llmisvc", "lws", "rbg", "rbgs", "so", "vr", "infpool"}
    for text in crd.rendered().values():
        assert not taken & set(yaml.safe_load(text)["spec"]["names"]["shortNames"])


def test_explicit_zero_and_false_survive_the_models() -> None:
    spec = InferenceServiceSpec.model_validate(
        {
            "mode": "Disaggregated",
            "model": {"uri": "path:///models/tiny"},
            "engine": {"chunkedPrefill": {"enabled": False}, "prefixCaching": False},
            "prefill": {"minReplicas": 0, "maxReplicas": 0, "gpus": 0},
            "decode": {"minReplicas": 0, "maxReplicas": 2},
            "autoscaling": {"mode": "External"},
        }
    )
    wire = spec.to_wire()
    assert wire["prefill"]["minReplicas"] == 0 and wire["prefill"]["gpus"] == 0
    assert wire["engine"]["chunkedPrefill"]["enabled"] is False
    assert wire["engine"]["prefixCaching"] is False
