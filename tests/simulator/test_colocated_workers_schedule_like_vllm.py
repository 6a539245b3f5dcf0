"""Steps that hold pieces of prompts and answers together: who gets how much of a step, and how long it takes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_autoscaler.model.mixed_step import Chunking, MixedStep
from tandem_autoscaler.simulator.colocated import serve
from tandem_autoscaler.simulator.hardware import Hardware
from tests.simulator import colocated_reference as reference
from tests.simulator.fleets import poisson, trace_of

# A token of a prompt takes 1 ms and a step 10 ms, so that times can be told by heart. 10 ms before a prompt is seen.
WORKER = Hardware("w", 1, (0.02, 1e-3, 0.0), (0.01, 0.0, 0.0), 100_000, max_sequences=64)
LONG_AND_SHORT = trace_of([0.0, 0.001], [1000.0, 50.0], [2.0, 2.0])


def test_without_chunks_a_short_prompt_waits_for_the_whole_long_one() -> None:
    served = serve(LONG_AND_SHORT, [WORKER], Chunking(2000, enabled=False))
    # The long one's step is under way when the short one comes; it is computed in the next, with the other's token.
    assert served.ttft[0] == pytest.approx(0.01 + 0.01 + 1.0)
    assert served.ttft[1] == pytest.approx(0.01 + 1.01 - 0.001 + 0.01 + 0.05)


def test_chunks_alone_leave_a_short_prompt_behind_the_long_one_because_that_takes_every_steps_budget() -> (
    None
):
    served = serve(LONG_AND_SHORT, [WORKER], Chunking(100))
    # Ten steps of 100 tokens; in the eleventh the short one and the long one's second token.
    assert served.ttft[1] == pytest.approx(0.01 + 10 * 0.11 - 0.001 + 0.06)


def test_the_threshold_lets_a_short_prompt_through_in_the_next_step() -> None:
    served = serve(LONG_AND_SHORT, [WORKER], Chunking(100, threshold=50))
    # The first step is the long one's alone, with the whole budget: nobody else is there. Then 50 tokens for each.
    assert served.ttft[1] == pytest.approx(0.01 + 0.11 - 0.001 + 0.11)
    assert served.ttft[0] > serve(LONG_AND_SHORT, [WORKER], Chunking(100)).ttft[0]


def test_chunks_protect_the_streams_from_a_long_prompt() -> None:
    stream_and_long = trace_of([0.0, 0.1], [10.0, 2000.0], [100.0, 1.0])
    whole = serve(stream_and_long, [WORKER], Chunking(4000, enabled=False))
    pieces = serve(stream_and_long, [WORKER], Chunking(100))
    assert whole.tpot[0] > 0.01 + 2.0 / 99 * 0.9
    # 99 of each step's 100 tokens are the prompt's, in about 20 of the stream's steps; and no step is longer.
    assert pieces.tpot[0] <= 0.01 + 0.1
    assert pieces.ttft[1] > whole.ttft[1]


def test_a_request_that_fits_no_cache_is_never_served_and_holds_up_nobody() -> None:
    small = replace(WORKER, kv_tokens=500)
    served = serve(trace_of([0.0, 0.0], [600.0, 100.0], [10.0, 10.0]), [small], Chunking(1000))
    assert np.isinf(served.finished[0]) and np.isfinite(served.finished[1])


def test_prompts_that_are_not_cut_must_fit_a_step() -> None:
    with pytest.raises(ValueError, match="1002 tokens"):
        serve(LONG_AND_SHORT, [WORKER], Chunking(512, enabled=False))


def test_two_workers_share_the_requests() -> None:
    trace = poisson(30.0, 30.0, prompt=30, output=10)
    one, two = (serve(trace, [WORKER] * number, Chunking(512)) for number in (1, 2))
    assert np.quantile(two.ttft, 0.95) < np.quantile(one.ttft, 0.95)


def test_a_step_is_the_sum_of_its_parts() -> None:
    step = MixedStep(0.01, 1e-4, 1e-8, 2e-5, 1e-9)
    whole = step.of_prompt(1000)
    assert whole == pytest.approx(2e-5 * 1000 + 1e-9 * 1000**2)
    assert step.of_prompt(400) + step.of_prompt(600, computed=400) == pytest.approx(whole)
    assert step.seconds(10, 5000, 1000) == pytest.approx(0.01 + 1e-3 + 5e-5 + whole)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(0, 3), st.integers(1, 900), st.integers(1, 40)), min_size=1, max_size=25
    ),
    budget=st.sampled_from([64, 200, 2000]),
    threshold=st.sampled_from([0, 32, 100]),
    enabled=st.booleans(),
    kv_tokens=st.sampled_from([700, 1500, 100_000]),
    most=st.sampled_from([3, 64]),
)
def test_it_agrees_with_the_same_in_plain_python(
    rows: list[tuple[float, int, int]], budget: int, threshold: int, enabled: bool, kv_tokens: int, most: int
) -> None:
    hardware = Hardware(
        "h", 1, (0.02, 3e-4, 1e-7), (0.007, 1e-4, 2e-7), kv_tokens, max_sequences=most
    )  # fmt: skip
    chunking = Chunking(budget if enabled else 2000, threshold if enabled else 0, enabled)
    rows = sorted(rows)
    served = serve(
        trace_of(*(list(map(float, column)) for column in zip(*rows, strict=True))), [hardware], chunking
    )
    seen = 0.02 - 0.007  # what passes before the scheduler sees a prompt
    expected = [reference.Request(at + seen, prompt, output) for at, prompt, output in rows]
    reference.serve(expected, hardware, chunking)
    finished = np.array([r.finished for r in expected])
    first = np.array([r.first - r.arrival + seen for r in expected])
    assert np.allclose(served.finished, finished, rtol=1e-9, equal_nan=False)
    assert np.allclose(served.ttft, first, rtol=1e-9)
