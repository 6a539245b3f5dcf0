"""Our autoscaler reads the simulated fleet through the same signals as a real one."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tandem_api import names
from tandem_autoscaler.signals import metric_names
from tandem_autoscaler.signals.source import PodReading
from tandem_autoscaler.simulator import exported
from tandem_autoscaler.simulator.hardware import Hardware
from tandem_autoscaler.simulator.readings import EPOCH_SECONDS, Readings
from tandem_autoscaler.simulator.run import result
from tandem_worker.gate import histogram as gate
from tests.simulator.fleets import SMALL, fleet_of, poisson, trace_of

KNOWN = {*metric_names.HISTOGRAMS, *metric_names.COUNTERS, *metric_names.GAUGES, *metric_names.RATIOS}
KNOWN |= set(metric_names.LABELLED)
TIGHT = Hardware("tight", 1, (0.02, 1e-4, 0.0), (0.02, 1e-3, 1e-6), 3_000, 16)


def _total(pods: Sequence[PodReading], counter: str) -> float:
    return sum(pod.counters[counter] for pod in pods)


@pytest.mark.parametrize("hardware", [SMALL, TIGHT])
def test_the_sum_of_the_pods_is_the_fleet(hardware: Hardware) -> None:
    fleet = fleet_of(poisson(8.0, 100.0, output=80), 2, 3, hardware)
    readings = Readings(fleet)
    for at in (0.0, 7.0, 31.0, 64.0, 99.0):
        fleet.advance(at)
        view = fleet.view()
        service, snapshot = readings.read()
        assert snapshot.taken_at_seconds == EPOCH_SECONDS + at
        pods = {
            role: [snapshot.pods[p.uid] for p in service.workers(role)]
            for role in (names.PREFILL, names.DECODE)
        }
        prefill, decode = pods[names.PREFILL], pods[names.DECODE]
        assert _total(prefill, "finished_total") == view.prefilled
        assert _total(prefill, "prompt_tokens_total") == view.prompt_tokens_prefilled
        assert _total(decode, "finished_total") == view.finished
        assert _total(decode, "output_tokens_total") == view.output_tokens_made
        assert _total(decode, "preemptions_total") == view.preemptions
        for role, of_role in ((names.PREFILL, view.prefill), (names.DECODE, view.decode)):
            for gauge, array in (("running", of_role.running), ("waiting", of_role.waiting)):
                assert [p.gauges[gauge] for p in pods[role]] == array.tolist()
            assert [p.gauges["kv_usage"] for p in pods[role]] == pytest.approx(of_role.kv_usage.tolist())
        first_tokens = sum(p.histograms["gate_ttft"].count for p in pods[names.DECODE])
        gaps = sum(p.histograms["inter_token"].count for p in pods[names.DECODE])
        assert gaps == view.output_tokens_made - first_tokens
    assert (view.preemptions > 0) == (hardware is TIGHT)


def test_the_two_gates_times_add_up_to_the_users() -> None:
    fleet = fleet_of(poisson(4.0, 100.0), 2, 2)
    served = result(fleet)
    service, snapshot = Readings(fleet).read()
    both = [
        sum(snapshot.pods[p.uid].histograms["gate_ttft"].total for p in service.workers(role))
        for role in (names.PREFILL, names.DECODE)
    ]
    assert sum(both) == pytest.approx(served.ttft.sum())
    per_token = [snapshot.pods[p.uid].histograms["gate_tpot"] for p in service.workers(names.DECODE)]
    within = sum(sum(h.counts[: h.edges.index(0.05) + 1]) for h in per_token)
    many = served.trace.output > 1
    assert within == (served.tpot[many] <= 0.05).sum(), "the target is an edge"


def test_every_request_is_in_the_length_histograms_once() -> None:
    fleet = fleet_of(poisson(4.0, 100.0), 2, 2)
    result(fleet)
    service, snapshot = Readings(fleet).read()
    for signal, role, lengths in (
        ("gate_prompt_tokens", names.PREFILL, fleet.trace.prompt),
        ("prompt_tokens", names.PREFILL, fleet.trace.prompt),
        ("output_tokens", names.DECODE, fleet.trace.output),
    ):
        found = [snapshot.pods[p.uid].histograms[signal] for p in service.workers(role)]
        edges = (-1.0, *found[0].edges)
        expected = [np.sum((lengths > low) & (lengths <= high)) for low, high in pairwise(edges)]
        assert np.sum([h.counts for h in found], axis=0).tolist() == expected
        assert sum(h.total for h in found) == lengths.sum()


def test_a_prefill_worker_tells_how_long_it_was_busy() -> None:
    fleet = fleet_of(trace_of([1.0, 1.0, 5.0], 1000, 1, duration=10.0))
    readings = Readings(fleet)
    alone = SMALL.prefill_seconds(1000.0)
    for at, busy in ((0.5, 0.0), (1.1, 0.1), (4.0, 2 * alone), (5.2, 2 * alone + 0.2), (9.0, 3 * alone)):
        fleet.advance(at)
        service, snapshot = readings.read()
        (pod,) = service.workers(names.PREFILL)
        told = snapshot.pods[pod.uid].counters["gate_prefill_busy_seconds_total"]
        assert told == pytest.approx(busy)


def test_with_late_demotion_the_queue_is_the_gates_and_not_the_engines() -> None:
    trace = trace_of([0.0] * 6, 1000, 1, duration=10.0)
    for late_demotion, waiting in ((False, 5), (True, 1)):
        fleet = fleet_of(trace, late_demotion=late_demotion)
        fleet.advance(0.1)
        service, snapshot = Readings(fleet).read()
        gauges = snapshot.pods[service.workers(names.PREFILL)[0].uid].gauges
        assert (gauges["running"], gauges["waiting"], gauges["gate_in_flight"]) == (1, waiting, 6)


def test_pods_tell_when_they_were_made_and_became_ready() -> None:
    fleet = fleet_of(trace_of([0.0, 0.0], 100, 2000, duration=100.0), 1, 2)
    readings = Readings(fleet)
    fleet.advance(10.0)
    fleet.set_targets(2, 1)
    service, snapshot = readings.read()
    assert [(p.ready, p.starting, p.draining) for p in service.workers(names.PREFILL)] == [
        (True, False, False), (False, True, False),
    ]  # fmt: skip
    assert [(p.ready, p.draining) for p in service.workers(names.DECODE)] == [(True, False), (False, True)]
    assert service.pools[names.PREFILL].replicas == 2 and service.pools[names.DECODE].replicas == 1
    starting = service.workers(names.PREFILL)[1]
    assert starting.uid not in snapshot.pods
    assert (starting.created_at_seconds, starting.ready_since_seconds) == (EPOCH_SECONDS + 10.0, None)
    fleet.advance(25.0)
    service, snapshot = readings.read()
    came = service.workers(names.PREFILL)[1]
    assert (came.uid, came.ready_since_seconds) == (starting.uid, EPOCH_SECONDS + 20.0)
    assert came.uid in snapshot.pods


def test_a_replacement_is_another_pod_that_counts_from_zero() -> None:
    fleet = fleet_of(poisson(4.0, 60.0), 1, 1)
    readings = Readings(fleet)
    fleet.advance(30.0)
    before, told = readings.read()
    fleet.crash("decode", 0)
    fleet.advance(45.0)
    after, now = readings.read()
    (old,), (new,) = before.workers(names.DECODE), after.workers(names.DECODE)
    assert old.uid != new.uid and old.uid not in now.pods
    assert now.pods[new.uid].counters["finished_total"] < told.pods[old.uid].counters["finished_total"]


def test_in_an_outage_the_pods_are_there_and_silent() -> None:
    fleet = fleet_of(poisson(4.0, 60.0), 1, 1)
    fleet.advance(30.0)
    fleet.silent = True
    service, snapshot = Readings(fleet).read()
    assert len(service.pods) == 2
    assert not snapshot.pods and set(snapshot.silent) == {p.uid for p in service.pods}


def test_a_reading_does_not_change_afterwards() -> None:
    fleet = fleet_of(poisson(4.0, 60.0), 1, 1)
    readings = Readings(fleet)
    fleet.advance(30.0)
    service, snapshot = readings.read()
    pod = snapshot.pods[service.workers(names.PREFILL)[0].uid]
    count, finished = sum(pod.histograms["gate_ttft"].counts), pod.counters["finished_total"]
    fleet.advance(60.0)
    readings.read()
    assert sum(pod.histograms["ttft"].counts) == count == finished == pod.counters["finished_total"]


def test_signals_and_edges_are_those_of_the_real_worker() -> None:
    fleet = fleet_of(poisson(4.0, 10.0), 1, 1)
    fleet.advance(5.0)
    _, snapshot = Readings(fleet).read()
    for pod in snapshot.pods.values():
        assert {*pod.counters, *pod.gauges, *pod.histograms} <= KNOWN
    edges = dict(zip(exported.SIGNALS, exported.edges(1.0, 0.05), strict=True))
    assert edges["gate_ttft"][:-1] == gate.edges_with_target(gate.TTFT_EDGES, 1.0)
    assert edges["gate_tpot"][:-1] == gate.edges_with_target(gate.TPOT_EDGES, 0.05)
    text = (Path(__file__).parents[1] / "worker" / "vllm-0.32-metrics.txt").read_text()
    for signal in ("ttft", "tpot", "inter_token", "queue", "prefill", "step_tokens"):
        name = metric_names.HISTOGRAMS[signal][0]
        theirs = {float(le) for le in re.findall(rf'^{name}_bucket{{.*le="([^"]+)"', text, re.MULTILINE)}
        assert set(edges[signal]) == theirs, signal
