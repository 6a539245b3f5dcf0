"""Validation lives in the CRDs (field case D18): no certificate of ours can run out and block everybody's edits."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = sorted(path for path in (ROOT / "helm" / "tandem").rglob("*") if path.suffix in (".yaml", ".tpl"))
CRDS = sorted((ROOT / "crds" / "generated").glob("*.yaml"))


def rules(schema: Any) -> list[str]:
    """All CEL rules in a schema, at whatever depth."""
    if isinstance(schema, list):
        return [rule for each in schema for rule in rules(each)]
    if not isinstance(schema, dict):
        return []
    own = [entry["rule"] for entry in schema.get("x-kubernetes-validations") or []]
    return own + [
        rule for key, each in schema.items() if key != "x-kubernetes-validations" for rule in rules(each)
    ]


def test_the_chart_installs_no_webhook() -> None:
    assert len(CHART) > 5
    for path in CHART:
        text = path.read_text()
        for word in (
            "WebhookConfiguration",
            "caBundle",
            "cert-manager.io",
            "ValidatingAdmissionPolicyBinding",
        ):
            assert word not in text, path


@pytest.mark.parametrize("path", CRDS, ids=lambda path: str(path.stem))
def test_the_crds_need_no_conversion_and_no_one_to_ask(path: Path) -> None:
    crd = yaml.safe_load(path.read_text())
    assert (crd["spec"].get("conversion") or {"strategy": "None"})["strategy"] == "None"
    served = [version for version in crd["spec"]["versions"] if version["served"]]
    assert [version["storage"] for version in served] == [True], "one version: nothing to convert"


def test_the_rules_are_in_the_schema() -> None:
    """That the API server carries them out: tests/integration/api/test_bad_manifests_are_refused_with_a_sentence.py."""
    (path,) = [path for path in CRDS if path.stem.startswith("inferenceservices")]
    found = rules(yaml.safe_load(path.read_text()))
    assert any("mode" in rule for rule in found)
    assert any("minReplicas" in rule and "maxReplicas" in rule for rule in found)
    assert any("extraArgs" in rule or "startsWith" in rule or "matches" in rule for rule in found)
