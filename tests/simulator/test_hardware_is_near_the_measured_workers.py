"""The hardware table against what was measured; every error is stated here."""

import csv
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tandem_autoscaler.simulator.catalogue import catalogue, hardware
from tandem_autoscaler.simulator.data import FOLDER, fit
from tandem_worker.simulate import profile
from tests.simulator.closed_loop import Served, serve


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_is_what_fitting_the_measured_points_gives() -> None:
    assert json.loads(fit.TABLE.read_text()) == fit.table()


def test_three_coefficients_describe_each_worker_within_eight_percent() -> None:
    """Median; the worst points are batches of one or two with very long contexts, and one outlier of the sweep."""
    for name, entry in catalogue().items():
        assert entry.prefill_error.median <= 0.06, name
        assert entry.decode_error.median <= 0.08, name
        assert entry.decode_error.worst <= 0.40, name


def test_a_fit_finds_the_coefficients_again_and_never_a_negative_one() -> None:
    batch, tokens = np.array([1.0, 8.0, 64.0, 128.0, 8.0]), np.array([1e3, 4e4, 1e5, 1e5, 2e5])
    terms = fit.decode_terms(batch, tokens)
    assert fit.fit(terms, terms @ [5.0, 0.03, 2e-5]) == pytest.approx((5.0, 0.03, 2e-5))
    assert min(fit.fit(terms, terms @ [5.0, -0.005, 2e-5])) >= 0


def test_the_workers_own_simulated_engine_has_the_same_times() -> None:
    """Its profiles were fitted apart, in its own shape: at working points the two agree within 6 %."""
    for name in ("h100-llama-8b", "h200-llama-8b", "a100-llama-8b", "h200-llama-8b-fp8"):
        theirs, ours = profile.load(name), hardware(name)
        assert theirs.kv_cache_tokens == pytest.approx(ours.kv_tokens, rel=1e-4)
        for prompt in (512, 2048, 8192):
            step = theirs.step_time_seconds(
                prefill_tokens=prompt,
                prefill_context=prompt * (prompt - 1) // 2,
                decode_sequences=0,
                kv_tokens=0,
            )
            assert theirs.request_seconds + step == pytest.approx(ours.prefill_seconds(prompt), rel=0.06), (
                name
            )
        for batch in (1, 32, 128):
            step = theirs.step_time_seconds(
                prefill_tokens=0, prefill_context=0, decode_sequences=batch, kv_tokens=1500 * batch
            )
            assert step == pytest.approx(ours.iteration_seconds(batch, 1500.0 * batch), rel=0.06), name


# -- measured serving ----------------------------------------------------------------------------------------------
# No worker was fitted to it. The grid's correction, three numbers for all workers together, came with the data and
# was probably chosen with sight of these points; the rest is prediction.


@cache
def errors(gpu: str, model: str, tp: int, *, sweep: bool = False) -> np.ndarray:
    """Relative errors of TTFT, TPOT and latency, one row per point that fits the KV cache.

    `sweep`: of the worker fitted to Dynamo's sweep, otherwise of that fitted to the corrected grid.
    """
    name = f"{gpu}-{model.removesuffix('-bf16')}" + (f"-tp{tp}" if tp > 1 else "")
    worker = hardware(f"{name}-grid" if not sweep and f"{name}-grid" in catalogue() else name)
    # InferenceMAX draws its lengths, the others' are constant.
    shortest = 0.8 if model == "llama-70b-fp8" else 1.0
    found = []
    for row in rows("measured-serving"):
        if (row["gpu"], row["model"], row["tp"]) != (f"{gpu}_sxm", model, str(tp)):
            continue
        concurrency, prompt, output = (int(row[key]) for key in ("concurrency", "prompt", "output"))
        if concurrency * (prompt + output) > 0.95 * worker.kv_tokens:
            continue
        ours = serve(worker, concurrency=concurrency, prompt=prompt, output=output, shortest=shortest)
        real = Served(float(row["ttft_ms"]) / 1000, float(row["tpot_ms"]) / 1000)
        found.append(
            (
                ours.ttft_seconds / real.ttft_seconds - 1,
                ours.tpot_seconds / real.tpot_seconds - 1,
                ours.latency_seconds(output) / real.latency_seconds(output) - 1,
            )
        )
    return np.array(found)


# (GPU, model, GPUs): median error of TTFT, TPOT and latency in per cent, as found; the test allows 1.5 points more.
FOUND = {
    ("h100", "llama-70b-fp8", 2): (2.3, 5.8, 5.8),
    ("h100", "llama-70b-fp8", 4): (10.5, 1.7, 1.8),
    ("h100", "llama-70b-fp8", 8): (9.4, 7.2, 7.2),
    ("h200", "llama-70b-fp8", 2): (7.2, 8.5, 8.0),
    ("h200", "llama-70b-fp8", 4): (5.0, 4.6, 4.6),
    ("h200", "llama-70b-fp8", 8): (10.2, 3.3, 3.2),
    # Of another harness, whose start we do not know: its TTFT is no measure of ours.
    ("h100", "qwen3-32b-bf16", 2): (34.2, 3.4, 1.1),
    ("h100", "qwen3-32b-bf16", 4): (27.4, 7.3, 5.8),
}


@pytest.mark.parametrize("worker", FOUND, ids=lambda worker: f"{worker[0]}-{worker[1]}-tp{worker[2]}")
def test_served_together_the_grids_workers_are_within_ten_percent(worker: tuple[str, str, int]) -> None:
    median = 100 * np.median(np.abs(errors(*worker)), axis=0)
    assert len(errors(*worker)) >= 11
    assert (median <= np.array(FOUND[worker]) + 1.5).all(), median
    assert median[1] <= 10 and median[2] <= 10


def test_over_all_those_workers_the_median_latency_is_five_percent_off() -> None:
    every = np.abs(np.concatenate([errors(*worker) for worker in FOUND]))
    assert len(every) == 139
    assert np.median(every[:, 1]) <= 0.06  # TPOT
    assert np.median(every[:, 2]) <= 0.055  # latency of the whole request
    assert np.quantile(every[:, 2], 0.9) <= 0.12
    llama = np.abs(np.concatenate([errors(*worker) for worker in FOUND if worker[1] == "llama-70b-fp8"]))
    assert np.median(llama[:, 0]) <= 0.10  # TTFT


def test_two_groups_are_not_reproduced_and_the_table_does_not_hide_it() -> None:
    """The engine of Dynamo's sweep (vLLM 0.10.1) was slower than that of InferenceMAX: 28 % at TP4.

    The ten points of the 8B model claim more prompt tokens per second than the sweep of the same GPU reached: 95,000
    at 1,000 tokens, three quarters of the peak FLOP/s while decoding. Probably cached prompts; ours is 79 % slower.
    """
    slower = np.median(errors("h100", "llama-70b-fp8", 4, sweep=True)[:, 2])
    assert 0.2 < slower < 0.35
    assert 0.6 < np.median(errors("h200", "llama-8b-fp8", 1)[:, 2]) < 0.9
    fastest = max(
        int(row["concurrency"]) * int(row["prompt"])
        / (float(row["ttft_ms"]) + float(row["tpot_ms"]) * (int(row["output"]) - 1))
        for row in rows("measured-serving")
        if row["model"] == "llama-8b-fp8" and row["tp"] == "1"
    )  # fmt: skip
    swept = max(
        float(row["tokens"]) / float(row["milliseconds"])
        for row in rows("measured-sweeps")
        if row["kind"] == "prefill" and row["gpu"] == "h200_sxm"
    )
    assert fastest > 1.5 * swept


def test_decode_alone_is_within_ten_percent() -> None:
    """InferenceMAX's H100 points without their prompts; the grid's workers."""
    off = []
    for row in rows("measured-decode"):
        worker = hardware(f"h100-llama-70b-fp8-tp{row['tp']}-grid")
        batch = float(row["concurrency"])
        # Lengths are 0.9 of the full in the mean, and a sequence has half of its answer in the mean.
        context = 0.9 * (int(row["prompt"]) + int(row["output"]) / 2)
        off.append(worker.iteration_seconds(batch, batch * context) / (float(row["tpot_ms"]) / 1000) - 1)
    assert len(off) == 42
    assert np.median(np.abs(off)) <= 0.065
    assert np.quantile(np.abs(off), 0.9) <= 0.15


# -- orderings that no error of a fit may turn round --------------------------------------------------------------


def test_h200_decodes_faster_than_h100_and_that_faster_than_a100() -> None:
    for model in ("llama-8b", "llama-70b-tp4", "qwen3-8b", "qwen3-32b-tp2"):
        h200, h100, a100 = (hardware(f"{gpu}-{model}") for gpu in ("h200", "h100", "a100"))
        for batch in (1, 32):
            times = [worker.iteration_seconds(batch, 2000.0 * batch) for worker in (h200, h100, a100)]
            assert times == sorted(times)
        assert h100.prefill_seconds(2000) < a100.prefill_seconds(2000)
        assert h200.kv_tokens > h100.kv_tokens


def test_more_gpus_are_faster_but_not_in_proportion() -> None:
    two, four, eight = (hardware(f"h100-llama-70b-fp8-tp{n}") for n in (2, 4, 8))
    for few, many in ((two, four), (four, eight)):
        for a, b in (
            (few.prefill_seconds(4000), many.prefill_seconds(4000)),
            (few.iteration_seconds(32, 64e3), many.iteration_seconds(32, 64e3)),
        ):
            assert b < a < 2 * b
        assert many.kv_tokens > 2 * few.kv_tokens


def test_an_unknown_name_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^there is no hardware 'h101'; there are a100-llama-70b-tp4, .*$"):
        hardware("h101")


def test_the_closed_loop_is_right_where_it_can_be_computed() -> None:
    """One client: TTFT is S(n) and TPOT the iteration with a context that grows."""
    worker = replace(hardware("h100-llama-8b"), prefill=(0.02, 2e-5, 1e-9), decode=(0.01, 1e-5, 1e-8))
    served = serve(worker, concurrency=1, prompt=1000, output=101)
    assert served.ttft_seconds == pytest.approx(worker.prefill_seconds(1000))
    assert served.tpot_seconds == pytest.approx(0.01 + 1e-5 + 1e-8 * (1001 + 99 / 2))
    # A prompt longer than the budget takes one iteration more for each part.
    longer = serve(worker, concurrency=1, prompt=20_000, output=2)
    assert longer.ttft_seconds == pytest.approx(worker.prefill_seconds(20_000) + 2 * 0.01)
