"""An InferenceService in a file, read with the API's own models. Every fault is one line for its author."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec
from tandem_autoscaler.cli.mistake import Mistake


@dataclass(frozen=True)
class Manifest:
    """`raw_spec` is the spec as it was written."""

    name: str
    namespace: str
    spec: InferenceServiceSpec
    raw_spec: dict[str, Any]


def read(filename: str) -> Manifest:
    """The one InferenceService in the file (`-`: stdin). Raises Mistake."""
    found = _only(filename, _documents(filename))
    metadata = found.get("metadata")
    if not isinstance(metadata, dict):
        raise Mistake(f"{filename}: metadata is missing")
    name = _text(filename, "name", metadata.get("name"))
    namespace = _text(filename, "namespace", metadata.get("namespace", "default"))
    try:
        spec = InferenceServiceSpec.model_validate(found.get("spec") or {})
    except ValidationError as error:
        raise Mistake(f"{filename}: {_paths(error)}") from None
    return Manifest(name, namespace, spec, found["spec"])


def _text(filename: str, field: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Mistake(f"{filename}: metadata.{field} must be a text")
    return value


def _documents(filename: str) -> list[Any]:
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        return list(yaml.safe_load_all(text))
    except OSError as error:
        raise Mistake(f"{filename}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise Mistake(f"{filename}: this is no text in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        at = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Mistake(f"{filename}{at}: this is no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise Mistake(f"{filename}: this is no YAML: {' '.join(str(error).split())}") from None


def _only(filename: str, documents: list[Any]) -> dict[str, Any]:
    found = [one for one in documents if isinstance(one, dict) and one.get("kind") == names.INFERENCE_SERVICE]
    if len(found) != 1:
        what = "no InferenceService" if not found else f"{len(found)} InferenceServices, and one is asked for"
        raise Mistake(f"{filename}: the file holds {what}")
    if found[0].get("apiVersion") != names.API_VERSION:
        raise Mistake(f"{filename}: apiVersion is {found[0].get('apiVersion')}, and not {names.API_VERSION}")
    return found[0]


def _paths(error: ValidationError) -> str:
    """Each fault with the path of its field."""
    return "; ".join(
        f"{'.'.join(('spec', *(str(part) for part in fault['loc'])))}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors()
    )
