"""Rates, lengths and burstiness of every trace (ALGORITHM section 3), and what scale, duration and seed do to it."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tandem_autoscaler.simulator.catalogue import SCENARIOS, catalogue
from tandem_autoscaler.simulator.data import FOLDER
from tandem_autoscaler.simulator.trace import Trace
from tandem_autoscaler.simulator.traces import NAMES, named

RECORDED = ("azure-conv-2023", "azure-code-2023", "mooncake-conv")
DAYS = ("azure-conv-2024", "servegen-deepseek-r1")


@cache
def trace(name: str, seed: int = 1, scale: float | None = None) -> Trace:
    return named(name, seed, scale)


def scv(values: NDArray[np.float64]) -> float:
    """Squared coefficient of variation."""
    return float(values.var() / values.mean() ** 2)


def dispersion(found: Trace, window_seconds: float) -> float:
    """Variance over mean of the arrivals per window; 1 for a Poisson process."""
    windows = int(found.duration_seconds // window_seconds)
    count = np.bincount((found.arrival // window_seconds).astype(int), minlength=windows)[:windows]
    return float(count.var() / count.mean())


def per_second(found: Trace, start: float, end: float) -> float:
    return float(np.sum((found.arrival >= start) & (found.arrival < end)) / (end - start))


# -- the recordings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "requests", "rate", "prompt", "prompt_scv", "output", "output_scv"),
    [
        ("azure-conv-2023", 19_366, 5.5, 1155, 0.92, 211, 0.60),
        ("azure-code-2023", 8_819, 2.6, 2048, 0.93, 28, 4.6),
        ("mooncake-conv", 12_031, 3.4, 12_035, 1.72, 343, 0.53),
    ],
)
def test_recordings_have_the_known_rates_and_lengths(
    name: str, requests: int, rate: float, prompt: float, prompt_scv: float, output: float, output_scv: float
) -> None:
    found = trace(name)
    assert len(found) == requests
    assert len(found) / found.duration_seconds == pytest.approx(rate, abs=0.05)
    assert found.prompt.mean() == pytest.approx(prompt, abs=0.5)
    assert found.output.mean() == pytest.approx(output, abs=0.5)
    assert scv(found.prompt) == pytest.approx(prompt_scv, abs=0.006)
    assert scv(found.output) == pytest.approx(output_scv, abs=0.02)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("azure-conv-2023", {1: 1.4, 5: 2.5, 10: 3.9, 60: 16}),
        ("azure-code-2023", {1: 13, 5: 47, 10: 72, 60: 164}),
        ("mooncake-conv", {60: 2.9}),  # its arrivals are known to 3 s only
    ],
)
def test_recordings_are_as_bursty_as_known(name: str, expected: dict[int, float]) -> None:
    for window, value in expected.items():
        assert dispersion(trace(name), window) == pytest.approx(value, rel=0.04), window


def test_a_recording_without_a_scale_does_not_depend_on_the_seed_unless_it_is_quantised() -> None:
    assert np.array_equal(trace("azure-conv-2023").arrival, trace("azure-conv-2023", 2).arrival)
    first, second = trace("mooncake-conv"), trace("mooncake-conv", 2)
    assert not np.array_equal(first.arrival, second.arrival)
    assert np.array_equal(first.prompt, second.prompt)
    assert np.abs(first.arrival - second.arrival).max() <= 3.0 + 0.01


# -- copies of a recording ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("scale", [0.5, 1.0, 6.5])
def test_copies_scale_the_rate_and_keep_each_minutes_share_and_lengths(name: str, scale: float) -> None:
    one, many = trace(name), trace(name, 3, scale)
    assert len(many) == pytest.approx(scale * len(one), rel=0.02)
    minutes = np.arange(0, one.duration_seconds, 60)
    a, b = (np.histogram(found.arrival, minutes)[0] for found in (one, many))
    # Jitter carries up to 5 of 60 s over the minute's edges; half of few requests per minute is noisy.
    assert np.corrcoef(a, b)[0, 1] > 0.75
    assert many.prompt.mean() == pytest.approx(one.prompt.mean(), rel=0.05)
    assert scv(many.prompt) == pytest.approx(scv(one.prompt), rel=0.1)
    assert set(many.output) <= set(one.output)


def test_copies_keep_prompt_and_output_of_one_request_together() -> None:
    one, many = trace("azure-conv-2023"), trace("azure-conv-2023", 3, 2.0)
    pairs = set(zip(one.prompt, one.output, strict=True))
    assert set(zip(many.prompt, many.output, strict=True)) <= pairs


def test_other_seeds_give_other_copies() -> None:
    first, second = trace("azure-conv-2023", 3, 2.0), trace("azure-conv-2023", 4, 2.0)
    assert len(first) == len(second)
    assert not np.array_equal(first.arrival, second.arrival)
    assert not np.array_equal(first.prompt, second.prompt)


# -- the reconstructed days --------------------------------------------------------------------------------------


def test_azures_day_of_2024_follows_the_published_rates_and_lengths() -> None:
    found = trace("azure-conv-2024", 1, 0.1)
    assert found.duration_seconds == 86_400
    with np.load(FOLDER / "azure-conv-2024.npz") as file:
        day = file["rate_per_second"].reshape(7, 288)[2]
        median_prompt = np.interp(0.5, file["prompt_share"], file["prompt_tokens"])
    rates = np.histogram(found.arrival, np.arange(289) * 300)[0] / 300
    assert np.corrcoef(rates, day)[0, 1] > 0.98
    assert rates.sum() == pytest.approx(0.1 * day.sum(), rel=0.01)
    assert found.prompt.mean() == pytest.approx(1605, rel=0.01)
    assert np.median(found.prompt) == pytest.approx(median_prompt, rel=0.01)
    assert found.output.mean() == pytest.approx(97, rel=0.01)
    assert "reconstructed" in found.note


def test_servegens_day_has_every_clients_requests_and_its_shifting_mix() -> None:
    found = trace("servegen-deepseek-r1")
    assert len(found) == 1_383_669
    assert found.duration_seconds == 86_400
    window = (found.arrival // 600).astype(int)
    count = np.bincount(window, minlength=144)
    with np.load(FOLDER / "servegen-deepseek-r1.npz") as file:
        assert np.array_equal(count, file["count"].sum(axis=0))
    ratio = np.bincount(window, found.output) / np.bincount(window, found.prompt)
    assert ratio.min() == pytest.approx(0.41, abs=0.05)
    assert ratio.max() == pytest.approx(5.1, abs=0.4)
    # At 01:50 by the published aggregate: 24.377 requests/s, 1,106.8 prompt and 1,274.1 output tokens in the mean.
    ten_to_two = window == 11
    assert ten_to_two.sum() == pytest.approx(24.377 * 600, abs=1)
    assert found.prompt[ten_to_two].mean() == pytest.approx(1106.8, rel=0.05)
    assert found.output[ten_to_two].mean() == pytest.approx(1274.1, rel=0.05)
    assert dispersion(found, 1.0) > 3  # a client's bursts are not smoothed away


# -- the made ones -----------------------------------------------------------------------------------------------


def test_dynamos_sine_runs_from_five_to_fortyfive_in_five_minutes() -> None:
    found = trace("dynamo-sine")
    assert found.duration_seconds == 1800
    assert set(found.prompt) == {3000.0} and set(found.output) == {300.0}
    for trough in (0, 600, 1200):
        assert per_second(found, trough, trough + 30) == pytest.approx(5.2, abs=1.5)
        assert per_second(found, trough + 285, trough + 315) == pytest.approx(45, abs=4)
    assert len(found) == pytest.approx(25 * 1800, rel=0.02)


def test_the_step_is_by_four() -> None:
    found = trace("step-x4")
    before, during, after = (per_second(found, start, start + 1200) for start in (0, 1200, 2400))
    assert during / before == pytest.approx(4, rel=0.03)
    assert during / after == pytest.approx(4, rel=0.03)


def test_the_mix_shifts_at_a_constant_request_rate() -> None:
    found = trace("mix-shift")
    early, middle = found.arrival < 1080, (found.arrival > 1380) & (found.arrival < 2280)
    assert per_second(found, 0, 1080) == pytest.approx(per_second(found, 1380, 2280), rel=0.04)
    assert found.prompt[early].mean() > 4 * found.prompt[middle].mean()
    assert found.output[middle].mean() > 5 * found.output[early].mean()


def test_bursts_are_what_tells_the_two_diurnals_apart() -> None:
    slow, bursty = trace("slow-diurnal"), trace("bursty-diurnal")
    for found in (slow, bursty):
        day = found.duration_seconds
        assert per_second(found, 0.4 * day, 0.6 * day) > 2.2 * per_second(found, 0, 0.1 * day)

    def roughness(found: Trace) -> float:
        """Mean relative step from one 30 s to the next, beyond which a sine of an hour is flat."""
        count = np.histogram(found.arrival, np.arange(0, found.duration_seconds + 1, 30))[0]
        return float(np.median(np.abs(np.diff(count)) / count[:-1]))

    assert roughness(bursty) > 2 * roughness(slow)


def test_idle_is_idle() -> None:
    found = trace("idle-spike")
    assert per_second(found, 0, 900) == per_second(found, 1500, 2400) == 0
    assert per_second(found, 900, 1500) == pytest.approx(60, rel=0.03)


# -- all -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_trace_keeps_the_contract(name: str) -> None:
    found = trace(name, 1, 0.05 if name in DAYS else 1.0)
    assert found.name == name and found.note
    assert len(found) == len(found.arrival) == len(found.prompt) == len(found.output) > 0
    assert found.arrival[0] >= 0 and found.arrival[-1] <= found.duration_seconds
    assert (np.diff(found.arrival) >= 0).all()
    for tokens in (found.prompt, found.output):
        assert (tokens >= 1).all() and np.array_equal(tokens, np.rint(tokens))
    assert 0 <= found.warm_up_seconds < found.duration_seconds / 5


@given(
    name=st.sampled_from([name for name in NAMES if name not in DAYS]),
    seed=st.integers(0, 2**40),
    scale=st.floats(0.05, 3.0),
    duration=st.floats(1.0, 5000.0),
)
@settings(max_examples=40, deadline=None)
def test_the_same_seed_gives_the_same_requests_and_a_duration_only_cuts(
    name: str, seed: int, scale: float, duration: float
) -> None:
    whole, cut = named(name, seed, scale), named(name, seed, scale, duration)
    assert cut.duration_seconds == min(duration, whole.duration_seconds)
    assert cut.warm_up_seconds <= 0.1 * cut.duration_seconds
    count = len(cut)
    assert count == np.sum(whole.arrival < cut.duration_seconds)
    for a, b in ((whole.arrival, cut.arrival), (whole.prompt, cut.prompt), (whole.output, cut.output)):
        assert np.array_equal(a[:count], b)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("azure", 1), r"^there is no trace 'azure'; there are azure-conv-2023, "),
        (("step-x4", 1, 0.0), r"^the scale of a trace must be above zero, not 0\.0$"),
        (("step-x4", 1, 1.0, float("nan")), r"^the duration of a trace must be above zero, not nan$"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        named(*arguments)


def test_every_trace_has_a_scenario_with_a_worker_that_exists() -> None:
    assert set(SCENARIOS) == set(NAMES)
    for name, scenario in SCENARIOS.items():
        assert scenario.trace == name
        worker = catalogue()[scenario.hardware].hardware
        assert scenario.prefill >= 1 and scenario.decode >= 1
        # One sequence alone is well within both targets.
        assert worker.iteration_seconds(1, 4096.0) < 0.9 * scenario.tpot_seconds
        assert worker.prefill_seconds(3000.0) < 0.5 * scenario.ttft_seconds


def test_few_requests_of_a_scenario_are_late_on_an_idle_fleet() -> None:
    for name, share in (("azure-conv-2023", 0.001), ("mooncake-conv", 0.075), ("azure-conv-2024", 0.001)):
        scenario = SCENARIOS[name]
        worker = catalogue()[scenario.hardware].hardware
        prompt = trace(name, 1, 0.05 if name in DAYS else None).prompt
        alone = worker.prefill_seconds(prompt) + worker.transfer_seconds(prompt)
        assert np.mean(alone >= scenario.ttft_seconds) <= share
