"""The work queue: dedupe, one flight per key, backoff, later. Time is the test's."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.queue import WorkQueue


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue[str]:
    return WorkQueue(clock, first_backoff_seconds=1, longest_backoff_seconds=8)


def test_a_key_added_twice_is_taken_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    assert (queue.take(), queue.take()) == ("a", None)


def test_a_key_in_flight_waits_and_is_taken_once_more(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a"
    queue.done("a")
    assert queue.take() is None


def test_another_key_does_not_wait_for_one_in_flight(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.take()
    queue.add("a")
    queue.add("b")
    assert queue.take() == "b"


def test_later_is_later_and_the_earlier_appointment_stands(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add_after("a", 5)
    queue.add_after("a", 9)
    assert queue.take() is None
    clock.now += 5
    assert queue.take() == "a"
    queue.done("a")
    clock.now += 100
    assert queue.take() is None


def test_an_earlier_wish_moves_the_appointment_forward(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add_after("a", 9)
    queue.add("a")
    assert queue.take() == "a"
    queue.done("a")
    clock.now += 9
    assert queue.take() is None


def test_failures_back_off_and_success_forgets_them(queue: WorkQueue[str], clock: Clock) -> None:
    waits = []
    queue.add("a")
    for _ in range(6):
        assert queue.take() == "a"
        waits.append(queue.failed("a"))
        assert queue.take() is None
        clock.now += waits[-1]
    assert waits == [1, 2, 4, 8, 8, 8]
    assert queue.take() == "a"
    queue.done("a")
    queue.add("a")
    queue.take()
    assert queue.failed("a") == 1


def test_what_the_server_asks_for_is_waited_for(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.take()
    assert queue.failed("a", after_seconds=5) == 5


def test_an_event_in_flight_does_not_undercut_the_backoff(queue: WorkQueue[str], clock: Clock) -> None:
    queue.add("a")
    queue.take()
    queue.add("a")
    queue.failed("a")
    assert queue.take() is None
    clock.now += 1
    assert queue.take() == "a"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.sampled_from([0.0, 1.0, 3.0])),
        st.tuples(st.just("take"), st.just(""), st.just(0.0)),
        st.tuples(st.just("done"), st.sampled_from("abc"), st.just(0.0)),
        st.tuples(st.just("tick"), st.just(""), st.sampled_from([0.5, 2.0])),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_wish_is_lost_and_no_key_flies_twice(steps: list[tuple[str, str, float]]) -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(clock)
    flying: set[str] = set()
    wished: set[str] = set()
    for what, key, seconds in steps:
        if what == "add":
            queue.add_after(key, seconds)
            wished.add(key)
        elif what == "take":
            taken = queue.take()
            if taken is not None:
                assert taken not in flying
                assert taken in wished
                flying.add(taken)
                wished.discard(taken)
        elif what == "done" and key in flying:
            queue.done(key)
            flying.discard(key)
        elif what == "tick":
            clock.now += seconds
    for key in list(flying):
        queue.done(key)
    clock.now += 10
    left = set()
    while (taken := queue.take()) is not None:
        left.add(taken)
    assert left == wished


async def test_a_taker_is_woken_by_what_is_added() -> None:
    queue: WorkQueue[str] = WorkQueue(asyncio.get_running_loop().time)
    takers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add_after("b", 0.01)
    assert sorted(await asyncio.gather(*takers)) == ["a", "b"]
