"""Invariants 6, 18 and 22: from a prior for another machine to the right figures, and not off by one stall."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem_autoscaler.decide.need_decode import mean_batch, staffed
from tandem_autoscaler.model.decode import DecodeModel
from tandem_autoscaler.model.prefill import MOST_GAIN, PrefillModel
from tandem_autoscaler.model.prompt_lengths import lengths, mean_tokens
from tandem_autoscaler.signals.histogram import Histogram


def work(tokens: float) -> float:
    return PrefillModel().work(tokens)


def taught(model: PrefillModel, at: float, **measured: float) -> PrefillModel:
    sample = model.sample(**measured)
    return model.learn(at, [sample] if sample is not None else [])


def timed(model: DecodeModel, at: float, **measured: float) -> DecodeModel:
    sample = model.sample(**measured)
    return model.learn(at, [sample] if sample is not None else [])


def learnt(seconds: float, *, tokens: float = 1000, times: int = 6) -> PrefillModel:
    model = PrefillModel()
    for tick in range(times):
        model = taught(model, 5.0 * tick, seconds=seconds, work=work(tokens), requests=3)
    return model


@pytest.mark.parametrize("seconds", [0.002, 0.05, 0.4, 8.0])
def test_a_gain_may_span_orders_of_magnitude(seconds: float) -> None:
    assert learnt(seconds).seconds(1000) == pytest.approx(seconds, rel=0.01)


def test_a_few_requests_are_no_knowledge_yet() -> None:
    model = taught(PrefillModel(), 0, seconds=3, work=work(100), requests=2)
    assert not model.known
    assert taught(model, 5, seconds=3, work=work(100), requests=4).known


def test_one_stall_moves_next_to_nothing() -> None:
    model = learnt(0.4)
    stalled = taught(model, 60, seconds=40, work=work(1000), requests=3)
    assert stalled.seconds(1000) == pytest.approx(model.seconds(1000), rel=0.05)


def test_a_true_change_is_followed() -> None:
    model = learnt(0.4)
    for tick in range(12):
        model = taught(model, 100 + 5 * tick, seconds=0.8, work=work(1000), requests=3)
    assert model.seconds(1000) == pytest.approx(0.8, rel=0.05)


def test_long_prompts_are_still_known_after_a_time_of_short_ones() -> None:
    """30 ms + 0.4 ms a token, with nothing but short prompts for five minutes."""
    model = PrefillModel()
    for tick in range(72):
        tokens = 1000.0 if tick < 12 else 60.0
        model = taught(model, 5.0 * tick, seconds=0.03 + 0.0004 * tokens, work=work(tokens), requests=3)
    assert model.seconds(60) == pytest.approx(0.054, rel=0.05)
    assert model.seconds(1000) == pytest.approx(0.43, rel=0.1)


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 1e6), st.floats(-5, 100),
        ),
        max_size=20,
    )
)  # fmt: skip
@example([(1.0, 2.2e-313, 1.0)])
def test_a_time_stays_within_its_bounds_whatever_is_measured(
    samples: list[tuple[float, float, float]],
) -> None:
    model = PrefillModel()
    for tick, (seconds, tokens, weight) in enumerate(samples):
        model = taught(model, 5.0 * tick, seconds=seconds, work=tokens, requests=weight)
        assert model.seconds_per_token is None or 0 <= model.seconds_per_token < MOST_GAIN
        assert 0 < model.seconds(1.0) <= MOST_GAIN * (0.01 + 36e-6 * 1e6) * 1.15


def decoded(base: float, slope: float, batches: list[float], ticks: int = 30) -> DecodeModel:
    model = DecodeModel()
    for tick in range(ticks):
        batch = batches[tick % len(batches)]
        model = timed(model, 5.0 * tick, batch=batch, seconds=base + slope * batch, tokens=100)
    return model


@pytest.mark.parametrize(
    ("base", "slope"),
    [(0.007, 0.0001), (0.02, 0.012), (0.001, 0.05), (0.2, 0.0)],
    ids=["GPU", "CPU", "no base", "flat"],
)
def test_the_line_is_found_from_batches_of_several_sizes(base: float, slope: float) -> None:
    model = decoded(base, slope, [1, 2, 4, 6, 8])
    for batch in (1, 4, 8):
        assert model.seconds(batch) == pytest.approx(base + slope * batch, rel=0.05)


def test_from_one_batch_size_nothing_follows_about_a_lone_sequence() -> None:
    assert not decoded(0.02, 0.012, [9]).proven
    assert decoded(0.02, 0.012, [9, 4]).proven
    assert decoded(0.02, 0.012, [1]).proven


def test_a_stalled_tick_does_not_tilt_the_line() -> None:
    model = decoded(0.02, 0.012, [1, 2, 4, 6])
    stalled = timed(model, 200, batch=2, seconds=2.0, tokens=100)
    assert stalled.seconds(4) == pytest.approx(model.seconds(4), rel=0.1)


@given(st.floats(0.001, 0.1), st.floats(1e-5, 0.05), st.floats(0.005, 0.5))
def test_the_largest_batch_meets_the_target_and_one_more_does_not(
    base: float, slope: float, target: float
) -> None:
    model = DecodeModel(base_seconds=base, seconds_per_sequence=slope)
    batch = model.largest_batch(target, 256)
    if batch > 0:
        assert model.seconds(batch) <= target + 1e-9
    assert batch == 256 or model.seconds(batch + 1) > target


@given(
    st.floats(0.001, 0.1), st.floats(0, 0.05), st.floats(1, 200), st.floats(0.1, 1e4), st.floats(1, 3), st.booleans()
)  # fmt: skip
def test_decode_workers_suffice_are_the_fewest_and_rise_with_the_tokens(
    base: float, slope: float, limit: float, tokens: float, factor: float, even: bool
) -> None:
    model = DecodeModel(base_seconds=base, seconds_per_sequence=slope)
    workers = staffed(tokens, model, limit, 1.5, even=even)

    def peak(count: int) -> float:
        mean, deviation = mean_batch(tokens / count, model)
        return mean + 1.5 * deviation / (math.sqrt(count) if even else 1.0)

    assert peak(workers) <= limit
    assert workers == 1 or peak(workers - 1) > limit
    assert staffed(tokens * factor, model, limit, 1.5, even=even) >= workers
    assert staffed(tokens, model, limit, 1.5, even=True) <= staffed(tokens, model, limit, 1.5)


def test_lengths_keep_the_exact_mean() -> None:
    found = lengths(
        Histogram((100.0, 500.0, 1000.0, float("inf")), (20, 30, 50, 0), 20 * 60 + 30 * 300 + 50 * 900)
    )
    assert found is not None
    assert mean_tokens(found) == pytest.approx((20 * 60 + 30 * 300 + 50 * 900) / 100)


@given(st.lists(st.floats(1, 4000), min_size=1, max_size=200))
def test_lengths_of_any_prompts_have_their_mean(prompts: list[float]) -> None:
    edges = (10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, float("inf"))
    counts = [0.0] * len(edges)
    for prompt in prompts:
        counts[next(i for i, edge in enumerate(edges) if prompt <= edge)] += 1
    found = lengths(Histogram(edges, tuple(counts), sum(prompts)))
    assert found is not None
    assert mean_tokens(found) == pytest.approx(sum(prompts) / len(prompts), rel=1e-6, abs=1.0)
    assert sum(share for _, share in found) == pytest.approx(1.0)
