"""The order of the admission queue (pure): main and low, and who goes where."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tandem_worker.gate.demotion.order import AGE_CAP_SECONDS, MARGIN_SHARE, Order, Waiting

TARGET = 1.0
ALLOWED = TARGET * (1 - MARGIN_SHARE)


def seconds_of(request: Waiting) -> float:
    return request.prompt_tokens / 1000


def choose(order: Order, now: float = 0.0, free_in: float = 0.0) -> Waiting | None:
    return order.choose(now, free_in_seconds=free_in, target_seconds=TARGET, work_seconds_of=seconds_of)


def drain(order: Order, now: float = 0.0) -> list[Waiting]:
    """All that wait, in the order in which one engine serves them."""
    served = []
    while (request := choose(order, now)) is not None:
        order.take(request, seconds_of(request))
        served.append(request)
        now += seconds_of(request)
    return served


def added(order: Order, *requests: tuple[float, float]) -> list[Waiting]:
    waiting = [Waiting(arrived, tokens) for arrived, tokens in requests]
    for request in waiting:
        order.add(request)
    return waiting


def test_who_can_all_be_in_time_are_served_as_they_come():
    order = Order()
    waiting = added(order, (0.0, 100), (0.0, 500), (0.0, 200))
    assert drain(order) == waiting
    assert order.demotions == 0


def test_the_longest_makes_room_when_one_behind_it_would_be_late():
    order = Order()
    long, *short = added(order, (0.0, 800), (0.0, 100), (0.0, 100))
    assert drain(order) == [*short, long]
    assert order.demotions == 1


def test_the_late_one_itself_waits_when_it_is_the_longest():
    order = Order()
    first, second, long = added(order, (0.0, 300), (0.0, 300), (0.0, 400))
    assert drain(order) == [first, second, long]
    assert long.low and not first.low


def test_of_equally_long_ones_the_last_waits():
    order = Order()
    one, two, three = added(order, (0.0, 400), (0.0, 400), (0.0, 400))
    choose(order)
    assert (one.low, two.low, three.low) == (False, False, True)


def test_who_could_not_be_in_time_on_an_idle_engine_either_waits_at_once():
    order = Order()
    endless, short = added(order, (0.0, 5000), (0.0, 100))
    assert choose(order) is short
    assert endless.low


def test_what_the_engine_already_has_counts():
    order = Order()
    long, short = added(order, (0.0, 500), (0.0, 100))
    assert choose(order, free_in=0.3) is long
    assert choose(order, free_in=0.5) is short


def test_who_was_put_back_comes_forward_when_there_is_room_again():
    """The engine was faster than predicted, or those behind have left."""
    order = Order()
    long, short = added(order, (0.0, 700), (0.0, 300))
    assert choose(order) is short and long.low
    order.remove(short)
    (behind,) = added(order, (0.1, 100))
    assert choose(order, 0.1) is long and not long.low
    order.take(long, 0.7)
    assert choose(order, 0.3) is behind
    assert order.demotions == 1


def test_the_low_queue_is_served_when_nobody_else_waits():
    order = Order()
    (endless,) = added(order, (0.0, 5000))
    assert choose(order) is endless


def test_an_old_request_is_served_although_others_wait_but_old_ones_do_not_take_over():
    """In a long overload everything in the low queue is old."""
    order, now, times = Order(), 0.0, {True: 0.0, False: 0.0}
    endless = added(order, *[(0.0, 5000)] * 100)
    choose(order)
    now = AGE_CAP_SECONDS + 1
    while now < AGE_CAP_SECONDS + 400:
        added(order, (now, 400))  # the main queue is never empty
        request = choose(order, now)
        order.take(request, seconds_of(request))
        times[request.low] += seconds_of(request)
        now += seconds_of(request)
    assert 0.2 < times[True] / 400 < 0.3
    assert any(request.low for request in endless)


def test_nobody_old_is_served_before_the_cap():
    order = Order()
    added(order, (0.0, 5000))
    (short,) = added(order, (AGE_CAP_SECONDS - 1, 100))
    assert choose(order, AGE_CAP_SECONDS - 1) is short
    (later,) = added(order, (AGE_CAP_SECONDS + 1, 100))
    assert choose(order, AGE_CAP_SECONDS + 1) is not later


ARRIVALS = st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 1200)), min_size=1, max_size=6)


@settings(deadline=None)
@given(ARRIVALS, st.floats(0, 0.5))
def test_no_order_has_more_requests_in_time(arrivals, free_in):
    """Against all subsets: those kept, in order of arrival, is the most that can be in time."""
    arrivals.sort()
    order = Order()
    waiting = added(order, *arrivals)
    now = 0.5
    choose(order, now, free_in)
    kept = sum(not request.low for request in waiting)

    def all_in_time(chosen) -> bool:
        finish = now + free_in
        for arrived, tokens in chosen:
            finish += tokens / 1000
            if finish > arrived + ALLOWED:
                return False
        return True

    best = next(
        size
        for size in range(len(arrivals), -1, -1)
        if any(all_in_time(chosen) for chosen in combinations(arrivals, size))
    )
    assert kept == best


class AnyTraffic(RuleBasedStateMachine):
    """Requests come, go in and give up in any order, with any lengths, predictions and clock steps."""

    def __init__(self) -> None:
        super().__init__()
        self.order = Order()
        self.now = 0.0
        self.waiting: list[Waiting] = []
        self.taken: list[Waiting] = []
        self.free_at = 0.0

    @rule(tokens=st.one_of(st.integers(1, 300), st.integers(1, 20000)))
    def come(self, tokens: int) -> None:
        request = Waiting(self.now, tokens)
        self.order.add(request)
        self.waiting.append(request)

    @rule(seconds=st.floats(0, 50))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.waiting))
        self.order.remove(request)
        self.waiting.remove(request)

    @rule(slower=st.floats(0.2, 5))
    def go_in(self, slower: float) -> None:
        """`slower`: what was predicted is not what it took."""
        free_in = max(0.0, self.free_at - self.now)
        chosen = choose(self.order, self.now, free_in)
        assert (chosen is None) == (not self.waiting)
        if chosen is None:
            return
        assert chosen in self.waiting and chosen not in self.taken
        queue = [request for request in self.waiting if request.low == chosen.low]
        assert chosen is queue[0], "within a queue the order is that of arrival"
        if chosen.low:
            old = self.now - chosen.arrived_seconds > AGE_CAP_SECONDS
            assert old or all(request.low for request in self.waiting)
        else:
            finish = self.now + free_in
            for request in queue:
                finish += seconds_of(request)
                assert finish <= request.arrived_seconds + ALLOWED + 1e-9, "who stays can be in time"
        self.order.take(chosen, seconds_of(chosen))
        self.free_at = max(self.free_at, self.now) + seconds_of(chosen) * slower
        self.waiting.remove(chosen)
        self.taken.append(chosen)

    @invariant()
    def nobody_is_lost(self) -> None:
        assert len(self.order) == len(self.waiting)
        assert self.order.low == sum(request.low for request in self.waiting)
        assert self.order.demotions >= self.order.low

    def teardown(self) -> None:
        while self.waiting:
            before = len(self.waiting)
            self.go_in(1.0)
            assert len(self.waiting) == before - 1


AnyTraffic.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyTraffic = AnyTraffic.TestCase
