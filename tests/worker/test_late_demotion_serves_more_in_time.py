"""Late demotion's worth: the same arrivals at the gate before the simulated engine, on a clock that jumps."""

import pytest

from tests.worker.gated_simulation import Mix, Request, in_time, serve

TARGET = 0.8


@pytest.mark.parametrize(("load", "gain"), [(0.9, 0.05), (1.1, 0.3)])
def test_of_mixed_prompts_at_high_load_more_are_in_time_and_none_is_lost(load, gain):
    mix = Mix()
    requests = mix.arrivals(mix.rate(load), 40.0, seed=4)
    without = serve(requests, late_demotion=False, target_seconds=TARGET)
    with_it = serve(requests, late_demotion=True, target_seconds=TARGET)
    assert len(without) == len(with_it) == len(requests)
    assert {one.status for one in with_it} == {200}
    assert in_time(with_it, TARGET) > 0.95
    assert in_time(with_it, TARGET) > in_time(without, TARGET) + gain
    # The order costs little throughput.
    assert max(one.ended_seconds for one in with_it) < 1.05 * max(one.ended_seconds for one in without)


def test_without_a_target_the_order_is_the_engines():
    requests = Mix().arrivals(Mix().rate(1.2), 5.0, seed=1)
    one = serve(requests, late_demotion=False, target_seconds=None)
    other = serve(requests, late_demotion=True, target_seconds=None)
    assert [served.request for served in one] == [served.request for served in other]


def test_long_answers_hold_no_prompt_up():
    """A sequence that decodes is no longer in the way: 40 answers of two seconds run side by side."""
    warm = [Request(number, 500, 1) for number in range(12)]
    many = [Request(14 + number * 0.05, 500, 300) for number in range(40)]
    served = serve([*warm, *many], late_demotion=True, target_seconds=TARGET)
    assert in_time(served, TARGET) == 1.0
    assert max(one.ended_seconds for one in served) < 20


def test_answers_that_show_no_first_token_do_not_queue_for_their_whole_length():
    """Not streamed: the gate takes them to be through with the prompt when that is due."""
    warm = [Request(number, 500, 1) for number in range(12)]
    many = [Request(14 + number * 0.05, 500, 300, stream=False) for number in range(40)]
    served = serve([*warm, *many], late_demotion=True, target_seconds=TARGET)
    assert {one.status for one in served} == {200}
    assert max(one.ended_seconds for one in served) < 20


def test_a_target_that_no_prompt_can_meet_costs_little_throughput():
    requests = [Request(index * 2.0, 2000, 1) for index in range(12)]
    requests += [Request(20.0, 2000, 1)] * 100
    ends = {
        on: max(one.ended_seconds for one in serve(requests, late_demotion=on, target_seconds=0.01)) - 20
        for on in (False, True)
    }
    assert ends[True] < 1.3 * ends[False]
