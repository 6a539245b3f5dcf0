"""Generates the CustomResourceDefinitions from the models.

`python -m tandem_api.crd DIRECTORY...` writes one YAML file per kind into each directory;
`--check` compares instead and exits 1 when a file is not what the models say.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from tandem_api import names
from tandem_api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from tandem_api.worker_pool import WorkerPoolSpec, WorkerPoolStatus

_HEADER = "# Generated from crds/tandem_api by `make generate`. Do not edit.\n"


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model as a Kubernetes structural schema: references inlined, `null` alternatives dropped.

    Raises ValueError for a construct that a structural schema cannot say, so that a model that would lose
    a rule on its way to the API server fails the build.
    """
    document = model.model_json_schema(by_alias=True, mode="validation")
    definitions = document.pop("$defs", {})
    return _structural(document, definitions)


def _structural(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    node = dict(node)
    if "$ref" in node:
        target = definitions[node.pop("$ref").rsplit("/", 1)[-1]]
        # Siblings of a reference (description, default) belong to the place of use and win.
        node = {**target, **node}
    if "anyOf" in node:
        kinds = [kind for kind in node.pop("anyOf") if kind != {"type": "null"}]
        if len(kinds) != 1:
            raise ValueError(f"a structural schema has no alternatives: {kinds}")
        return _structural({**kinds[0], **node}, definitions)
    node.pop("title", None)
    if node.get("default", ...) is None:
        del node["default"]
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if node.get("x-kubernetes-preserve-unknown-fields"):
        node.pop("additionalProperties", None)
    elif node.get("additionalProperties") is False:
        # Unknown fields are pruned, and refused by kubectl's strict validation; `false` is not structural.
        del node["additionalProperties"]
    elif isinstance(node.get("additionalProperties"), dict):
        node["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    if "properties" in node:
        required = node.get("required", [])
        properties = {}
        for name, child in node["properties"].items():
            properties[name] = _structural(child, definitions)
            # A nested block with a default_factory: present even when the user leaves it out, so that its
            # own defaults apply and rules may read it without asking whether it is there.
            if "default" not in child and name not in required and "properties" in properties[name]:
                properties[name]["default"] = {}
        node["properties"] = properties
    if "items" in node:
        node["items"] = _structural(node["items"], definitions)
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    return node


def _column(
    name: str, path: str, *, kind: str = "string", wide: bool = False, about: str = ""
) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if about:
        column["description"] = about
    if wide:
        column["priority"] = 1
    return column


def _crd(
    *,
    kind: str,
    plural: str,
    short: str,
    spec: type[BaseModel],
    status: type[BaseModel],
    columns: list[dict[str, Any]],
    scale: dict[str, str] | None = None,
) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if scale:
        subresources["scale"] = scale
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(spec),
            "status": structural_schema(status),
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{names.GROUP}",
            "labels": {names.LABEL_PART_OF: "tandem"},
            # Uninstalling the chart must not delete what users wrote.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["tandem"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def inference_service_crd() -> dict[str, Any]:
    """The CustomResourceDefinition of `InferenceService`."""
    crd = _crd(
        kind=names.INFERENCE_SERVICE,
        plural=names.INFERENCE_SERVICES,
        short="infsvc",
        spec=InferenceServiceSpec,
        status=InferenceServiceStatus,
        columns=[
            _column("MODE", ".spec.mode"),
            _column("READY", ".status.conditions[?(@.type=='Ready')].status"),
            _column("WORKERS", ".status.summary", about="ready/desired over all roles"),
            _column("PREFILL", ".status.roles.prefill.summary", about="ready/desired"),
            _column("DECODE", ".status.roles.decode.summary", about="ready/desired"),
            _column("REASON", ".status.conditions[?(@.type=='Ready')].reason"),
            _column("AGE", ".metadata.creationTimestamp", kind="date"),
            _column("TTFT", ".status.slo.ttft.measured", wide=True),
            _column("TPOT", ".status.slo.tpot.measured", wide=True),
            _column("URL", ".status.url", wide=True),
        ],
    )
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [
        {
            # The longest name made from it is a label value and a Service name (63): <name>-router-metrics.
            "rule": "size(self.metadata.name) <= 48",
            "message": "the name of an InferenceService may have at most 48 characters, "
            "because its workers and its router are named after it",
        },
        {
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "message": "the name of an InferenceService must start with a letter and have only lower-case "
            "letters, digits and hyphens, because its Service is named after it",
        },
    ]
    return crd


def worker_pool_crd() -> dict[str, Any]:
    """The CustomResourceDefinition of `WorkerPool`, with its scale subresource."""
    return _crd(
        kind=names.WORKER_POOL,
        plural=names.WORKER_POOLS,
        short="wpool",
        spec=WorkerPoolSpec,
        status=WorkerPoolStatus,
        columns=[
            _column("SERVICE", ".spec.service"),
            _column("ROLE", ".spec.role"),
            _column("DESIRED", ".spec.replicas", kind="integer"),
            _column("CURRENT", ".status.replicas", kind="integer"),
            _column("READY", ".status.readyReplicas", kind="integer"),
            _column("AGE", ".metadata.creationTimestamp", kind="date"),
        ],
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )


def rendered() -> dict[str, str]:
    """File name -> YAML of every CRD."""
    crds = [inference_service_crd(), worker_pool_crd()]
    return {
        f"{crd['metadata']['name']}.yaml": _HEADER + yaml.safe_dump(crd, sort_keys=False, width=100)
        for crd in crds
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tandem_api.crd", description=__doc__)
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    options = parser.parse_args(arguments)
    stale = []
    for directory in options.directories:
        for name, text in rendered().items():
            path = directory / name
            if options.check:
                if not path.exists() or path.read_text() != text:
                    stale.append(str(path))
            else:
                directory.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    if stale:
        print("not what the models say (run `make generate`): " + ", ".join(stale), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
