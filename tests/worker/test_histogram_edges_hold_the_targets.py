"""Attainment is exact at a target, whatever the values: an edge lies on it."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api import names
from tandem_worker.gate import targets
from tandem_worker.gate.histogram import TPOT_EDGES, TTFT_EDGES, Histogram, edges_with_target
from tandem_worker.gate.measures import Measures, exposition, merge
from tandem_worker.gate.targets import Targets, TargetsFile, parse_annotations

seconds = st.floats(min_value=1e-4, max_value=500)
base_edges = st.sampled_from([TTFT_EDGES, TPOT_EDGES])


@given(base_edges, seconds)
def test_the_target_is_an_edge_exactly_and_edges_ascend(edges, target):
    built = edges_with_target(edges, target)
    assert target in built
    assert set(edges) <= set(built)
    assert all(a < b for a, b in pairwise(built))


@given(base_edges, seconds, st.lists(seconds, min_size=1, max_size=60))
def test_attainment_is_the_share_of_values_within_the_target(edges, target, values):
    histogram = Histogram(edges_with_target(edges, target))
    for value in values:
        histogram.observe(value)
    assert histogram.attainment(target) == sum(value <= target for value in values) / len(values)


@given(base_edges, seconds)
def test_a_value_on_the_target_meets_it(edges, target):
    histogram = Histogram(edges_with_target(edges, target))
    histogram.observe(target)
    histogram.observe(math.nextafter(target, math.inf))
    assert histogram.attainment(target) == 0.5


@given(st.lists(seconds, max_size=60))
def test_cumulative_counts_never_fall_and_end_with_all(values):
    histogram = Histogram(TTFT_EDGES)
    for value in values:
        histogram.observe(value)
    counts = [count for _, count in histogram.cumulative()]
    assert counts == sorted(counts)
    assert counts[-1] == len(values)
    assert histogram.total == pytest.approx(sum(values))


@given(st.lists(seconds, max_size=40), st.lists(seconds, max_size=40))
def test_two_processes_added_are_as_one(here, there):
    apart = []
    for values in (here, there):
        measures = Measures(TargetsFile(_nowhere()))
        for value in values:
            measures.observe_ttft(value, 0.0)
        apart.append(measures.snapshot(0.0, gate_open=True))
    together = Measures(TargetsFile(_nowhere()))
    for value in here + there:
        together.observe_ttft(value, 0.0)
    merged, wanted = merge(*apart), together.snapshot(0.0, gate_open=True)
    assert merged["ttft"]["counts"] == wanted["ttft"]["counts"]
    assert merged["ttft"]["total"] == pytest.approx(wanted["ttft"]["total"])


def test_histograms_of_other_edges_are_not_added(tmp_path):
    path = tmp_path / "annotations"
    path.write_text(f'{targets.TTFT_KEY}="0.7"\n')
    with_target = Measures(TargetsFile(path))
    with_target.observe_ttft(0.1, 0.0)
    without = Measures(TargetsFile(_nowhere()))
    without.observe_ttft(0.1, 0.0)
    own = with_target.snapshot(0.0, gate_open=True)
    assert merge(own, without.snapshot(0.0, gate_open=False))["ttft"] == own["ttft"]
    assert b"tandem:gate_open 0.0" in exposition(merge(own, without.snapshot(0.0, gate_open=False)))


def test_no_values_is_unknown_not_zero():
    assert Histogram(TTFT_EDGES).attainment(1.0) is None


def test_attainment_off_the_edges_is_refused():
    with pytest.raises(ValueError):
        Histogram(TTFT_EDGES).attainment(0.123)


def test_the_keys_are_those_the_operator_writes():
    assert targets.TTFT_KEY == names.ANNOTATION_TTFT_TARGET
    assert targets.TPOT_KEY == names.ANNOTATION_TPOT_TARGET
    assert f"{names.PODINFO_PATH}/annotations" == targets.DEFAULT_PATH


def test_annotations_are_read_as_the_kubelet_writes_them():
    text = 'a.b/c="plain"\nd="with \\"quotes\\" and \\\\"\ne="two\\nlines"\nbroken\nf=unquoted\n'
    assert parse_annotations(text) == {"a.b/c": "plain", "d": 'with "quotes" and \\', "e": "two\nlines"}


@pytest.mark.parametrize("bad", ["soon", "-1", "0", "nan", "inf", "1e9"])
def test_a_target_that_is_no_time_leaves_the_old_one(tmp_path, bad, caplog):
    path = tmp_path / "annotations"
    path.write_text(f'{targets.TTFT_KEY}="0.5"\n')
    file = TargetsFile(path)
    assert file.read()
    path.write_text(f'{targets.TTFT_KEY}="{bad}"\n{targets.TPOT_KEY}="0.04"\n')
    file.read()
    assert file.targets == Targets(0.5, 0.04)
    assert bad in caplog.text


def test_a_file_that_vanishes_leaves_the_targets(tmp_path):
    path = tmp_path / "annotations"
    path.write_text(f'{targets.TTFT_KEY}="0.5"\n')
    file = TargetsFile(path)
    file.read()
    path.unlink()
    assert not file.read()
    assert file.targets.ttft_seconds == 0.5


def test_an_annotation_removed_is_a_target_gone(tmp_path):
    path = tmp_path / "annotations"
    path.write_text(f'{targets.TTFT_KEY}="0.5"\n')
    file = TargetsFile(path)
    file.read()
    path.write_text("")
    assert file.read()
    assert file.targets == Targets()


def _nowhere():
    return Path("/nonexistent/annotations")
