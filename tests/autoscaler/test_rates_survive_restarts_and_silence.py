"""Field cases A14, B17 and invariants 10, 24: pods that come, go, restart, fall silent, or have another clock."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api import names
from tandem_autoscaler.fleet.service import Pod, Service
from tandem_autoscaler.signals.histogram import Histogram
from tandem_autoscaler.signals.source import PodReading, Snapshot
from tandem_autoscaler.signals.window import History, begin

START = 1.8e9  # seconds since the epoch, as the loop's clock has them


def service(*uids: str) -> Service:
    pods = tuple(Pod("n", uid, uid, "10.0.0.1", names.PREFILL, True, 0.0, 0.0) for uid in uids)
    return Service("n", "s", "u", 1, "Auto", False, True, None, {}, pods)


def reading(uid: str, at: float, finished: float, running: float = 0.0) -> PodReading:
    ttft = Histogram((1.0, math.inf), (finished, 0.0), finished * 0.5)
    return PodReading(
        uid, at, {"finished_total": finished}, {"running": running, "waiting": 0.0}, {"ttft": ttft}
    )


def told(history: History, at: float, **finished: float) -> History:
    pods = {uid: reading(uid, at, value) for uid, value in finished.items()}
    return history.advance(service(*finished), Snapshot(at, pods))


def test_a_pod_seen_for_the_first_time_contributes_nothing_known() -> None:
    """A14: count 40 and no earlier sample is neither 40 requests nor 0 of them."""
    history = told(begin(START), START, a=40)
    assert history.rates(names.PREFILL, 60).rate("finished_total") is None
    history = told(history, START + 10, a=50)
    assert history.rates(names.PREFILL, 60).rate("finished_total") == pytest.approx(1.0)


def test_a_first_sight_does_not_pull_the_fleets_mean_down() -> None:
    history = told(told(begin(START), START, a=0), START + 5, a=10)
    silent_until_now = Snapshot(
        START + 10, {"a": reading("a", START + 10, 20), "b": reading("b", START + 10, 4000)}
    )
    history = replace(history, listed_at_seconds={"a": None, "b": None}).advance(
        service("a", "b"), silent_until_now
    )
    assert history.rates(names.PREFILL, 60).rate("finished_total") == pytest.approx(2.0)


def test_a_new_pod_does_not_look_like_new_demand() -> None:
    """Two per second go to one pod, then are shared by two: still two per second, in every window."""
    history, first, second = begin(START), 0.0, 0.0
    for tick in range(60):
        at = START + 5 * tick
        if tick < 20:
            history = told(history, at, a=first)
            first += 10
        else:
            history = told(history, at, a=first, b=second)
            first, second = first + 5, second + 5
        if tick > 4:
            for window in (20, 60):
                rate = history.rates(names.PREFILL, window).rate("finished_total")
                assert rate == pytest.approx(2.0, rel=0.13), (tick, window)


def test_a_pod_that_leaves_takes_no_past_with_it() -> None:
    history, first, second = begin(START), 0.0, 0.0
    for tick in range(40):
        at = START + 5 * tick
        if tick < 20:
            history = told(history, at, a=first, b=second)
            first, second = first + 5, second + 5
        else:
            history = told(history, at, a=first)
            first += 10
        if tick > 13:
            assert history.rates(names.PREFILL, 60).rate("finished_total") == pytest.approx(2.0, rel=0.13), (
                tick
            )


def test_arrivals_do_not_saturate_with_the_worker() -> None:
    """Three arrive per second and one is finished: what piles up has arrived too."""
    history = begin(START)
    for tick in range(13):
        at = START + 5 * tick
        pod = reading("a", at, finished=5.0 * tick, running=10.0 * tick)
        history = history.advance(service("a"), Snapshot(at, {"a": pod}))
    rates = history.rates(names.PREFILL, 60)
    assert rates.rate("arrivals_total") == pytest.approx(3.0)
    assert rates.rate("finished_total") == pytest.approx(1.0)


@pytest.mark.parametrize("window", [20, 60, 300])
def test_a_pod_that_falls_silent_keeps_its_last_pace_until_that_is_too_old(window: float) -> None:
    """So it is for each worker while Prometheus is away, and between its scrapes where they are half a minute apart."""
    history = begin(START)
    for tick in range(13):
        history = told(history, START + 5 * tick, a=10 * tick)
    last = history.now_seconds
    for silent in range(5, 80, 5):
        history = history.advance(service("a"), Snapshot(last + silent))
        rate = history.rates(names.PREFILL, window).rate("finished_total")
        assert rate == (pytest.approx(2.0) if silent <= 45 else None), silent


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=3, max_size=30))
def test_a_restart_is_neither_negative_nor_a_spike(steps: list[tuple[int, bool]]) -> None:
    history, held, most = told(begin(START), START, a=0), 0, 0.0
    for tick, (grown, restarted) in enumerate(steps, 1):
        held = grown if restarted else held + grown
        history = told(history, START + 5 * tick, a=held)
        most = max(most, grown / 5)
        rate = history.rates(names.PREFILL, 60).rate("finished_total")
        assert rate is not None and 0 <= rate <= most + 1e-9


def test_time_that_stands_still_changes_nothing() -> None:
    history = told(told(begin(START), START, a=0), START + 5, a=10)
    again = told(history, START + 5, a=10)
    assert again.rates(names.PREFILL, 60) == history.rates(names.PREFILL, 60)


def test_time_that_goes_back_is_ignored() -> None:
    history = told(told(begin(START), START, a=0), START + 5, a=10)
    assert told(history, START - 100, a=11) is history


def test_a_clock_ahead_of_ours_does_not_make_a_reading_fresh_for_ever() -> None:
    """B17: stale is what we have not seen change, whatever time it bears."""
    history = begin(START)
    for at, value in ((START, 0.0), (START + 5, 10.0)):
        history = history.advance(service("a"), Snapshot(at, {"a": reading("a", at + 90, value)}))
    assert history.rates(names.PREFILL, 60).rate("finished_total") == pytest.approx(2.0)
    for later in range(10, 80, 5):
        same = reading("a", START + 95, 10.0)
        history = history.advance(service("a"), Snapshot(START + later, {"a": same}))
    assert history.rates(names.PREFILL, 60).rate("finished_total") is None


def test_slow_scrapes_by_prometheus_do_not_thin_the_rate() -> None:
    """A reading that is renewed every 15 s, looked at every 5."""
    history = begin(START)
    for tick in range(30):
        at = START + 5 * tick
        scraped = START + 15 * (tick // 3)
        pod = reading("a", scraped, finished=2.0 * (scraped - START))
        history = history.advance(service("a"), Snapshot(at, {"a": pod}))
    for window in (20, 60):
        assert history.rates(names.PREFILL, window).rate("finished_total") == pytest.approx(2.0)


def test_an_empty_answer_is_no_reading() -> None:
    history = begin(START).advance(service("a"), Snapshot(START, {"a": PodReading("a", START)}))
    assert not history.tracks
