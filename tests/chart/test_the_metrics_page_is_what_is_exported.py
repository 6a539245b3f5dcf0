"""docs/metrics.md against the registries: the same names, types and labels, no more and no fewer."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tandem_api.reasons import Reason
from tandem_autoscaler.decide.decision import Why
from tests.chart.control_plane import autoscaler_registry, inference_service, operator_registry

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
Row = tuple[str, str, tuple[str, ...]]  # name, type, labels


def told() -> set[Row]:
    rows = re.findall(
        r"^\| `(tandem_[a-z_]+)` \| (\w+) \|([^|]*)\| [^|]+ \|$", PAGE.read_text(), re.MULTILINE
    )
    return {(name, kind, tuple(sorted(re.findall(r"`(\w+)`", labels)))) for name, kind, labels in rows}


def exported(*registries: CollectorRegistry) -> set[Row]:
    found = set()
    for registry in registries:
        for family in registry.collect():
            assert family.documentation and family.samples, f"{family.name} tells nothing here"
            labels = {label for sample in family.samples for label in sample.labels} - {"le", "quantile"}
            # prometheus_client knows a counter by its name without _total.
            name = family.name + ("_total" if family.type == "counter" else "")
            found.add((name, family.type, tuple(sorted(labels))))
    return found


def test_the_page_is_the_registries() -> None:
    assert told() == exported(operator_registry(), autoscaler_registry())


def test_names_follow_the_conventions() -> None:
    """https://prometheus.io/docs/practices/naming/"""
    for name, kind, _ in exported(operator_registry(), autoscaler_registry()):
        assert re.fullmatch(r"tandem_(operator|autoscaler)_[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") == (kind == "counter"), name
        if kind in ("histogram", "summary"):
            assert name.endswith("_seconds"), name
        assert not re.search(r"_(ms|milliseconds|percent|count|sum|bucket)$", name), name


def test_no_label_can_grow_with_the_traffic() -> None:
    free = {"namespace", "service", "role"}
    fixed = {"state", "reason", "promise", "outcome", "verb", "resource"}
    for name, _, labels in exported(operator_registry(), autoscaler_registry()):
        assert set(labels) <= free | fixed, name


def values(registry: CollectorRegistry, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    found = (sample for family in registry.collect() for sample in family.samples if sample.name == name)
    return {tuple(sorted(sample.labels.items())): sample.value for sample in found}


def test_the_number_of_series_is_that_of_services_and_roles() -> None:
    one = operator_registry(inference_service("a"))
    two = operator_registry(inference_service("a"), inference_service("b"))

    def count(registry: CollectorRegistry) -> int:
        return sum(len(family.samples) for family in registry.collect())

    # Ready, GPUs used and budget; per role one wish and three states.
    assert count(two) - count(one) == 3 + 2 * (1 + 3)
    for registry in (autoscaler_registry(), two):
        reasons = {str(reason) for reason in (*Why, *Reason)}
        for family in registry.collect():
            assert {s.labels["reason"] for s in family.samples if "reason" in s.labels} <= reasons


def test_a_service_that_is_deleted_leaves_nothing() -> None:
    from tandem_operator.metrics import Metrics

    metrics = Metrics()
    metrics.services.replace([inference_service("a"), inference_service("b")])
    metrics.services.replace([inference_service("b")])
    assert {dict(key)["service"] for key in values(metrics.registry, "tandem_operator_gpus")} == {"b"}


def test_unknown_is_never_zero() -> None:
    fresh = {"metadata": {"namespace": "ml", "name": "new"}}
    registry = operator_registry(fresh, inference_service("odd", ready="Unknown"))
    assert values(registry, "tandem_operator_service_ready") == {}
    assert {dict(key)["service"] for key in values(registry, "tandem_operator_workers")} == {"odd"}


def test_a_standby_tells_of_no_service() -> None:
    registry = autoscaler_registry(leading=False)
    assert values(registry, "tandem_autoscaler_leader") == {(): 0.0}
    for family in registry.collect():
        assert not [sample for sample in family.samples if "service" in sample.labels]


def test_a_decision_has_one_reason_at_a_time() -> None:
    found = values(autoscaler_registry(), "tandem_autoscaler_decision")
    assert sorted(dict(key)["role"] for key in found) == ["decode", "prefill"]
    assert set(found.values()) == {1.0}


@pytest.mark.parametrize(
    "registry", [operator_registry(), autoscaler_registry()], ids=["operator", "autoscaler"]
)
def test_what_is_exported_is_prometheus_own_text(registry: CollectorRegistry) -> None:
    from prometheus_client import generate_latest

    assert list(text_string_to_metric_families(generate_latest(registry).decode()))
