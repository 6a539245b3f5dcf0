"""What the documentation and the examples show can be applied, and names no field that does not exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from tandem_api import names
from tandem_api.crd import structural_schema
from tandem_api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from tandem_api.worker_pool import WorkerPoolSpec, WorkerPoolStatus
from tests.docs.pages import EXAMPLES, PAGES, ROOT, Manifest, code_spans, fragments, manifests

MODELS: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    names.INFERENCE_SERVICE: (InferenceServiceSpec, InferenceServiceStatus),
    names.WORKER_POOL: (WorkerPoolSpec, WorkerPoolStatus),
}
SPEC = structural_schema(InferenceServiceSpec)
OURS = [manifest for manifest in manifests() if manifest.content["apiVersion"] == names.API_VERSION]
# A field as prose names it: `engine.maxModelLen`, `spec.slo.ttft`, `drain.deadline`. Not `slo.yaml`, nor a call.
_FIELD = re.compile(
    r"^(spec\.)?((model|engine|slo|workers|prefill|decode|autoscaling|router|drain)(\.[a-z][A-Za-z]*)+)(: .*)?$"
)


def unknown_fields(value: Any, schema: dict[str, Any], path: str = "spec") -> Iterator[str]:
    """Paths in `value` that the schema does not know; below free-form templates everything is known."""
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, inner in value.items():
        if name not in schema.get("properties", {}):
            yield f"{path}.{name}"
        else:
            yield from unknown_fields(inner, schema["properties"][name], f"{path}.{name}")


def nested(dotted: str) -> dict[str, Any]:
    """`a.b.c` as {"a": {"b": {"c": None}}}."""
    value: Any = None
    for name in reversed(dotted.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("manifest", OURS, ids=str)
def test_a_manifest_is_what_the_models_take(manifest: Manifest) -> None:
    assert set(manifest.content) <= {"apiVersion", "kind", "metadata", "spec", "status"}
    spec, status = MODELS[manifest.content["kind"]]
    TypeAdapter(spec).validate_python(manifest.content["spec"])
    if "status" in manifest.content:
        TypeAdapter(status).validate_python(manifest.content["status"])


@pytest.mark.parametrize("fragment", fragments(), ids=str)
def test_a_part_of_a_manifest_names_only_fields_that_exist(fragment: Manifest) -> None:
    assert list(unknown_fields(fragment.content["spec"], SPEC)) == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "migration.md"], ids=lambda p: p.name
)
def test_prose_names_only_fields_that_exist(page: Path) -> None:
    named = [found[2] for span in code_spans(page) if (found := _FIELD.match(span))]
    unknown = [path for field in named for path in unknown_fields(nested(field), SPEC)]
    assert unknown == []


def test_the_fields_that_others_fields_become_exist() -> None:
    """In the tables of the migration page the last column is ours."""
    text = (ROOT / "docs" / "migration.md").read_text()
    cells = [row.rstrip(" |").rsplit(" | ", 1)[-1] for row in text.splitlines() if row.startswith("| ")]
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    named = [found[2] for span in spans if (found := _FIELD.match(span))]
    assert len(named) > 50
    assert [path for field in named for path in unknown_fields(nested(field), SPEC)] == []


def test_an_unknown_field_is_found_here_too() -> None:
    assert list(unknown_fields(nested("engine.maxModelLength"), SPEC)) == ["spec.engine.maxModelLength"]
    assert _FIELD.match("spec.slo.ttft") and not _FIELD.match("slo.ttft and so on")


def test_the_index_and_the_readme_show_a_service_and_every_example_has_one() -> None:
    assert OURS and fragments()
    shown = {manifest.place.split("[")[0].split(":")[0] for manifest in OURS}
    assert {"README.md", "docs/index.md"} <= shown
    assert {str(path.relative_to(ROOT)) for path in EXAMPLES} <= shown
