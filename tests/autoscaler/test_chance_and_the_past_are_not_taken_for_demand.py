"""What is asked for is what comes.

Not a burst that is over at once, nor answers of a length that is gone, nor a stock that refills after a lull.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.load import Load, measure, settled
from tests.autoscaler.scene import Scene

WINDOWS = {"long_seconds": 60.0, "short_seconds": 20.0}
rates = st.floats(0.0, 500.0)


def load_of(scene: Scene) -> Load:
    return measure(scene.state, scene.service, scene.settings, 50.0, news=False)[1]


def test_twenty_seconds_beyond_chance_are_believed_and_what_is_chance_depends_on_the_traffic() -> None:
    """80/s, then 100/s for 20 s: five standard deviations of Poisson's arrivals, two of those that come in bursts."""
    assert settled(80.0, 100.0, **WINDOWS, scv=1.0) == pytest.approx(110.0)
    assert settled(80.0, 100.0, **WINDOWS, scv=6.0) == 80.0
    assert settled(80.0, 200.0, **WINDOWS, scv=6.0) == pytest.approx(220.0), (
        "what no burst of seconds explains"
    )
    assert settled(80.0, 0.0, **WINDOWS, scv=6.0) == 0.0, "the end of a load is seen at once"


@given(rates, rates, st.floats(1.0, 8.0), st.floats(1.0, 8.0))
def test_the_burstier_the_traffic_the_less_a_short_window_moves_it(
    long: float, short: float, one: float, other: float
) -> None:
    smooth, bursty = sorted((one, other))
    moved = [abs(settled(long, short, **WINDOWS, scv=scv) - long) for scv in (bursty, smooth)]
    assert moved[0] <= moved[1]


@pytest.mark.parametrize(("before", "after"), [(900.0, 120.0), (120.0, 900.0)])
def test_a_new_length_of_answers_is_known_within_a_minute(before: float, after: float) -> None:
    scene = Scene(prefill=4, decode=4, minimum=4, maximum=4)
    scene.settle(70, prompts=20.0, seconds=0.05, tokens=before)
    assert scene.state.output_tokens == pytest.approx(before, rel=0.01)
    scene.settle(13, prompts=20.0, seconds=0.05, tokens=after)
    assert scene.state.output_tokens == pytest.approx(after, rel=0.05)


def while_decode_fills(*, tokens: float) -> Load:
    """Six minutes of 20 answers/s of 100 tokens at 20 ms: 40 sequences. Then 20 s of twice as many prompts."""
    scene = Scene(prefill=4, decode=4, minimum=4, maximum=4).settle(
        72, prompts=20.0, seconds=0.05, tokens=100
    )
    for _ in range(4):
        scene.prompts(40.0, seconds=0.05)
        scene.answers(20.0, tokens=tokens)
        scene.tick(apply=False)
    return load_of(scene)


@pytest.mark.parametrize("tokens", [30.0, 100.0])
def test_a_stock_that_refills_after_a_lull_is_not_taken_to_grow_on(tokens: float) -> None:
    load = while_decode_fills(tokens=tokens)
    assert load.decode_running == pytest.approx(20 * tokens * 0.02, rel=0.01), "no more than the usual 40"
    assert load.decode_growth == 0.0


def test_a_stock_that_grows_beyond_its_usual_size_is() -> None:
    load = while_decode_fills(tokens=250.0)
    assert load.decode_running == pytest.approx(100.0, rel=0.01)
    assert load.decode_growth == pytest.approx(20.0, rel=0.05)
