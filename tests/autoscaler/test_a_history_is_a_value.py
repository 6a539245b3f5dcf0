"""Invariants 10 and 24 of what is remembered: nothing old changes, order does not matter, memory is bounded."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_api import names
from tandem_autoscaler.fleet.service import Pod, Service
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.layout import Histograms, layout
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tandem_autoscaler.signals.window import History, Rates, begin

START, TICK = 1000.0, 5.0
EDGES = (0.1, 0.5, 1.0, math.inf)
WINDOWS = (20.0, 60.0, 300.0)
few = settings(max_examples=30, deadline=None)


def service(*uids: str) -> Service:
    pods = tuple(Pod("n", uid, uid, "10.0.0.1", names.PREFILL, True, 0.0, 0.0) for uid in uids)
    return Service("n", "s", "u", 1, "Auto", False, True, None, {}, pods)


class Worker:
    """Counts at random."""

    def __init__(self, uid: str, seed: int, edges: tuple[float, ...] = EDGES) -> None:
        self.uid, self.random, self.edges = uid, random.Random(seed), edges
        self.restart()

    def restart(self) -> None:
        self.finished, self.total, self.counts = 0.0, 0.0, [0.0] * len(self.edges)

    def work(self) -> None:
        for _ in range(self.random.randrange(8)):
            self.counts[self.random.randrange(len(self.edges))] += 1
            self.total += self.random.random()
            self.finished += 1

    def reading(self, at: float) -> PodReading:
        ttft = Histogram(self.edges, tuple(self.counts), self.total)
        gauges = {"running": 1.0, "waiting": 0.0}
        return PodReading(self.uid, at, {"finished_total": self.finished}, gauges, {"ttft": ttft})


def told(history: History, at: float, *readings: PodReading) -> History:
    uids = [reading.uid for reading in readings]
    return history.advance(service(*uids), Snapshot(at, {reading.uid: reading for reading in readings}))


def rates(history: History) -> list[Rates]:
    return [history.rates(names.PREFILL, window) for window in WINDOWS]


def requests(found: Rates) -> float:
    histogram = found.histogram("ttft")
    assert histogram is not None
    return histogram.count


@few
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=40), st.integers(0, 9))
def test_an_old_history_stays_as_it_was(restarts: list[list[bool]], seed: int) -> None:
    workers = [Worker(uid, seed + number) for number, uid in enumerate("abc")]
    history, kept = begin(START), []
    for tick, restarted in enumerate(restarts):
        for worker, gone in zip(workers, restarted, strict=True):
            worker.work()
            if gone:
                worker.restart()
        at = START + TICK * tick
        history = told(history, at, *(worker.reading(at) for worker in workers))
        kept.append((history, rates(history)))
    for old, before in kept:
        # Made anew from what the history holds, not from what it has made already.
        assert rates(replace(old, _made={})) == before


@few
@given(st.permutations("abcdefg"), st.integers(0, 9))
def test_the_order_in_which_pods_are_listed_changes_nothing_at_all(order: list[str], seed: int) -> None:
    """Not even the last bit: floating-point sums depend on their order, so theirs is fixed."""
    first, second = begin(START), begin(START)
    workers = {uid: Worker(uid, seed + number) for number, uid in enumerate("abcdefg")}
    for tick in range(20):
        at = START + TICK * tick
        for worker in workers.values():
            worker.work()
        first = told(first, at, *(worker.reading(at) for worker in workers.values()))
        second = told(second, at, *(workers[uid].reading(at) for uid in order))
        assert rates(first) == rates(second)
    assert [t.uid for t, _ in first.steps(names.PREFILL)] == [t.uid for t, _ in second.steps(names.PREFILL)]
    assert first == second


def test_an_hour_takes_no_more_memory_than_the_longest_window() -> None:
    worker, history = Worker("a", 1), begin(START)
    for tick in range(720):
        at = START + TICK * tick
        worker.work()
        history = told(history, at, worker.reading(at))
    track = history.tracks["a"]
    assert len(track.points) <= 34
    assert all(point.nbytes == 8 * track.layout.size for point in track.points)
    assert track.times[0] <= track.times[-1] - 300, "the long window is covered"


def test_a_worker_without_work_keeps_a_single_point() -> None:
    worker, history = Worker("a", 1), begin(START)
    worker.work()
    for tick in range(100):
        history = told(history, START + TICK * tick, worker.reading(START + TICK * tick))
    assert len({id(point) for point in history.tracks["a"].points}) == 1


def test_a_value_that_is_missing_once_is_caught_up_with() -> None:
    """A gap in one series is no restart and loses nothing that was counted meanwhile."""
    history = begin(START)
    for tick in range(13):
        at = START + TICK * tick
        counters = {"finished_total": 10.0 * tick, "preemptions_total": 0.0}
        if tick == 6:
            del counters["finished_total"]
        history = told(history, at, PodReading("a", at, counters))
        assert tick == 6 or history.tracks["a"].reading.counters == counters
    assert history.rates(names.PREFILL, 60).rate("finished_total") == pytest.approx(2.0)


def test_a_value_that_appears_later_has_an_unknown_past() -> None:
    history = told(begin(START), START, PodReading("a", START, {"preemptions_total": 0.0}))
    for tick in (1, 2):
        at = START + TICK * tick
        late = {"preemptions_total": 0.0, "finished_total": 4000.0 + 10.0 * tick}
        history = told(history, at, PodReading("a", at, late))
    (_, step), = history.steps(names.PREFILL)  # fmt: skip
    assert step.counters["finished_total"] == 10.0
    assert history.rates(names.PREFILL, 60).rate("finished_total") == pytest.approx(1.0)


def test_a_new_target_begins_its_histogram_anew_and_nothing_else() -> None:
    worker, history = Worker("a", 1), begin(START)
    for tick in range(6):
        at = START + TICK * tick
        if tick == 3:  # the gate has taken another target; the engine runs on
            worker.edges, worker.counts, worker.total = (0.1, 0.7, math.inf), [0.0] * 3, 0.0
        worker.counts[0] += 10
        worker.finished += 10
        history = told(history, at, worker.reading(at))
    found = history.rates(names.PREFILL, 60)
    assert found.rate("finished_total") == pytest.approx(2.0)
    histogram = found.histogram("ttft")
    assert histogram is not None and histogram.edges == worker.edges
    assert min(histogram.counts) >= 0 and 0 < histogram.count < 2.0


@few
@given(st.integers(0, 99))
def test_workers_of_several_versions_add_up_on_the_edges_that_all_have(seed: int) -> None:
    """During a roll-out: as much as each would count alone."""
    workers = [Worker("a", seed), Worker("b", seed + 1, (0.5, 2.0, math.inf)), Worker("c", seed + 2)]
    together, alone = begin(START), [begin(START)] * 3
    for tick in range(10):
        at = START + TICK * tick
        for number, worker in enumerate(workers):
            worker.work()
            alone[number] = told(alone[number], at, worker.reading(at))
        together = told(together, at, *(worker.reading(at) for worker in workers))
    for window in WINDOWS:
        found = together.rates(names.PREFILL, window)
        assert requests(found) == pytest.approx(sum(requests(h.rates(names.PREFILL, window)) for h in alone))
        assert set(found.histograms["ttft"].edges) == {0.5, math.inf}


def test_a_pod_that_was_only_left_out_of_one_list_counts_again() -> None:
    worker, history = Worker("a", 1), begin(START)
    for tick in range(8):
        at = START + TICK * tick
        worker.finished += 10
        history = told(history, at, worker.reading(at)) if tick != 4 else told(history, at)
    assert history.gauge(names.PREFILL, "running") == (1.0,)
    assert len(history.steps(names.PREFILL)) == 1
    assert history.rates(names.PREFILL, 20).pods == 1


def test_a_source_may_give_buckets_as_an_array() -> None:
    worker, plain, arrays = Worker("a", 1), begin(START), begin(START)
    alone = layout((), ("ttft",), (EDGES,), False)
    for tick in range(10):
        at = START + TICK * tick
        worker.work()
        reading = worker.reading(at)
        values = np.array([*worker.counts, worker.total])
        given_so = replace(reading, histograms=Histograms((alone, values)))
        assert given_so == reading
        plain, arrays = told(plain, at, reading), told(arrays, at, given_so)
    assert rates(plain) == rates(arrays)
