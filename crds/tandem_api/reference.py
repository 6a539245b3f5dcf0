"""Generates docs/reference.md: every field of both kinds, from the models.

`python -m tandem_api.reference FILE --examples MANIFEST...` writes it; `--check` compares instead. Types, defaults,
meanings and rules come from the models; the examples are the values of the manifests, which are applied in CI.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from tandem_api import names
from tandem_api.crd import inference_service_crd, worker_pool_crd
from tandem_api.durations import DURATION_PATTERN
from tandem_api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from tandem_api.worker_pool import WorkerPoolSpec, WorkerPoolStatus

_HEADER = (
    "<!-- Generated from crds/tandem_api and examples/reference by `make generate`. Do not edit. -->\n"
    "# Reference\n\n"
    f"API group `{names.GROUP}`, version `{names.VERSION}`. `kubectl explain infsvc.spec` says the same in a terminal. "
    "Unknown fields are refused. Durations are written as `40ms`, `1s`, `5m` or `1m30s`.\n"
)
_EACH = "*"
"""In a path: any element of a list, any value of a map."""

Schema = dict[str, Any]
FieldPath = tuple[str, ...]


def rendered(manifests: Sequence[dict[str, Any]]) -> str:
    """The page as Markdown; `manifests` give the examples.

    Raises ValueError for a field without a meaning, because a reference with holes is none.
    """
    return "\n".join(
        [
            _HEADER,
            *_kind(inference_service_crd(), InferenceServiceSpec, InferenceServiceStatus, manifests),
            "",
            *_kind(worker_pool_crd(), WorkerPoolSpec, WorkerPoolStatus, manifests),
            *_marks(),
            "",
        ]
    )


def undocumented(manifests: Sequence[dict[str, Any]]) -> list[str]:
    """`kind.path` of each field that no manifest gives an example of."""
    lacking = []
    for kind, part, model in (
        (names.INFERENCE_SERVICE, "spec", InferenceServiceSpec),
        (names.INFERENCE_SERVICE, "status", InferenceServiceStatus),
        (names.WORKER_POOL, "spec", WorkerPoolSpec),
        (names.WORKER_POOL, "status", WorkerPoolStatus),
    ):
        own = [manifest for manifest in manifests if manifest["kind"] == kind]
        for section in _sections(model, part):
            for name in section.fields:
                if section.example(own, name) is None:
                    lacking.append(f"{kind}.{'.'.join(section.paths[0])}.{name}")
    return lacking


class _Section:
    """One model of the schema, and the places of the object where it stands."""

    def __init__(self, title: str, schema: Schema) -> None:
        self.title = title
        self.fields: dict[str, Schema] = schema.get("properties", {})
        self.required: list[str] = schema.get("required", [])
        self.about: str = " ".join(schema.get("description", "").split())
        self.rules = [
            rule["message"]
            for place in (schema, *self.fields.values())
            for rule in place.get("x-kubernetes-validations", [])
        ]
        self.paths: list[FieldPath] = []

    def example(self, manifests: Sequence[dict[str, Any]], name: str) -> Any:
        """A value that a manifest has there, one that is not the default if there is one; None without any."""
        found = [
            value
            for path in self.paths
            for manifest in manifests
            for value in _values(manifest, (*path, name))
        ]
        default = self.fields[name].get("default")
        return next((value for value in found if value != default), found[0] if found else None)


def _sections(model: type[BaseModel], part: str) -> list[_Section]:
    """The model and all that it contains, each once, in the order of first use."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    definitions = document.get("$defs", {})
    found: dict[str, _Section] = {}

    def visit(title: str, schema: Schema, path: FieldPath) -> None:
        section = found.setdefault(title, _Section(title, schema))
        section.paths.append(path)
        for name, node in section.fields.items():
            target, inside = _target(node)
            if target is not None:
                visit(target, definitions[target], (*path, name, *inside))

    visit(part, document, (part,))
    return list(found.values())


def _target(node: Schema) -> tuple[str | None, FieldPath]:
    """The model that a field holds, and the step into it where it holds many."""
    node = _present(node)
    if "$ref" in node:
        return node["$ref"].rsplit("/", 1)[-1], ()
    for many in ("items", "additionalProperties"):
        if isinstance(node.get(many), dict) and "$ref" in node[many]:
            return node[many]["$ref"].rsplit("/", 1)[-1], (_EACH,)
    return None, ()


def _present(node: Schema) -> Schema:
    """The node without its `null` alternative; the siblings of the alternatives win."""
    kinds = [kind for kind in node.get("anyOf", []) if kind != {"type": "null"}]
    return {**kinds[0], **node} if kinds else node


def _values(value: Any, path: FieldPath) -> Iterator[Any]:
    if not path:
        yield value
    elif path[0] == _EACH:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _values(inner, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _values(value[path[0]], path[1:])


def _kind(
    crd: dict[str, Any],
    spec: type[BaseModel],
    status: type[BaseModel],
    manifests: Sequence[dict[str, Any]],
) -> Iterator[str]:
    known = crd["spec"]["names"]
    kind, version = known["kind"], crd["spec"]["versions"][0]
    own = [manifest for manifest in manifests if manifest["kind"] == kind]
    columns = ", ".join(
        f"{column['name']}{' (wide)' if column.get('priority') else ''}"
        for column in version["additionalPrinterColumns"]
    )
    yield f"## {kind}"
    yield ""
    yield (
        f"Plural `{known['plural']}`, short `{'`, `'.join(known['shortNames'])}`, "
        f"category `{'`, `'.join(known['categories'])}`; namespaced. Columns: {columns}."
    )
    if "scale" in version["subresources"]:
        yield ""
        yield "It has the subresource `/scale` with a selector, for `kubectl scale`, an HPA or KEDA."
    rules = version["schema"]["openAPIV3Schema"].get("x-kubernetes-validations", [])
    yield from _refusals([rule["message"] for rule in rules])
    for part, model in (("spec", spec), ("status", status)):
        sections = _sections(model, part)
        about = {section.title: section.about for section in sections}
        for section in sections:
            yield from _table(kind, section, about, own)


def _table(
    kind: str, section: _Section, about: Mapping[str, str], manifests: Sequence[dict[str, Any]]
) -> Iterator[str]:
    root = len(section.paths[0]) == 1
    places = ["`" + ".".join(path).replace(f".{_EACH}", "[]") + "`" for path in section.paths]
    yield ""
    yield f"### {kind} {section.title}" if root else f"#### {_heading(kind, section.title)}"
    yield ""
    yield section.about if root else f"{', '.join(places)}. {section.about}"
    yield ""
    yield "| field | type | default | meaning | example |"
    yield "|---|---|---|---|---|"
    for name, node in section.fields.items():
        meaning = _meaning(f"{kind} {section.title}.{name}", node, about)
        default = "required" if name in section.required else _default(node)
        target, _ = _target(node)
        example = "" if target is not None else _written(section.example(manifests, name))
        yield f"| `{name}` | {_type(kind, node)} | {default} | {meaning} | {example} |"
    yield from _refusals(section.rules)


def _refusals(messages: Sequence[str]) -> Iterator[str]:
    if messages:
        yield ""
        yield "What the API server says to what cannot be:"
        yield ""
        yield from (f"* {_plain(message)}" for message in messages)


def _heading(kind: str, title: str) -> str:
    """Both kinds may have a model of the same name, and a heading is an address."""
    return title if kind == names.INFERENCE_SERVICE else f"{kind} {title}"


def _anchor(kind: str, title: str) -> str:
    return _heading(kind, title).lower().replace(" ", "-")


def _meaning(field: str, node: Schema, about: Mapping[str, str]) -> str:
    """The field's own description, else that of the model that it holds."""
    target, _ = _target(node)
    text = _present(node).get("description") or about.get(target or "")
    if not text:
        raise ValueError(f"{field} has no description in the models")
    return _plain(" ".join(text.split()))


def _type(kind: str, node: Schema) -> str:
    node = _present(node)
    if "$ref" in node:
        title = node["$ref"].rsplit("/", 1)[-1]
        return f"[{title}](#{_anchor(kind, title)})"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node.get("pattern") == DURATION_PATTERN:
        return "duration"
    match node["type"]:
        case "array":
            return f"list of {_type(kind, node['items'])}"
        case "object" if isinstance(node.get("additionalProperties"), dict):
            return f"map to {_type(kind, node['additionalProperties'])}"
        case "integer":
            return "integer" + _bounds(node)
        case other:
            return str(other)


def _bounds(node: Schema) -> str:
    least, most = node.get("minimum"), node.get("maximum")
    if least is None and most is None:
        return ""
    return f", {least} to {most}" if most is not None else f", {least} or more"


def _default(node: Schema) -> str:
    value = node.get("default")
    return "" if value is None else _written(value)


def _written(value: Any) -> str:
    """A value as YAML in one line, which a cell of a table can hold."""
    if value is None:
        return ""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return "`" + text.removesuffix("...\n").strip().replace("|", "\\|") + "`"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _marks() -> Iterator[str]:
    """Labels and annotations that users may read or set."""
    rows = (
        (names.ANNOTATION_PAUSED, "annotation of an InferenceService", '`"true"`: its pools stay as they are'),
        (names.LABEL_SERVICE, "label of every object of a service", "its InferenceService"),
        (names.LABEL_ROLE, "label of a worker", "its role now; a flip changes it"),
        (names.LABEL_COMPONENT, "label of every object of a service", "`worker`, `follower` or `router`"),
        (names.LABEL_SERVING, "label of a worker", '`"true"` while the router may send to it'),
        (names.ANNOTATION_DRAIN_REASON, "annotation of a worker", "why it goes"),
        (names.ANNOTATION_DRAIN_STARTED, "annotation of a worker", "since when; `drain.deadline` counts from it"),
    )  # fmt: skip
    yield ""
    yield "## Labels and annotations"
    yield ""
    yield "Select by them; set none but the first."
    yield ""
    yield "| name | where | value |"
    yield "|---|---|---|"
    yield from (f"| `{name}` | {where} | {value} |" for name, where, value in rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tandem_api.reference", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--examples", nargs="+", type=Path, required=True, help="manifests with every field")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = parser.parse_args(arguments)
    manifests = [yaml.safe_load(path.read_text()) for path in options.examples]
    page = rendered(manifests)
    if not options.check:
        options.file.write_text(page)
    elif not options.file.exists() or options.file.read_text() != page:
        print(f"{options.file} is not what the models say: run `make generate`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
