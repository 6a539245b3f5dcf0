"""The scheduler: token budget, chunked prefill, the long-prompt threshold, KV blocks, preemption."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_worker.simulate.profile import load
from tandem_worker.simulate.scheduler import Limits, Phase, Scheduler, Sequence

PROFILE = load("h100-llama-8b")


def scheduler(**limits) -> Scheduler:
    given_limits = {"max_batched_tokens": 512, "max_sequences": 8, "kv_blocks": 1000, **limits}
    return Scheduler(PROFILE, Limits(**given_limits))


def prompt(tokens: int, output: int = 1) -> Sequence:
    return Sequence(tokens, output, 0.0)


def run(engine: Scheduler, steps: int = 10_000) -> float:
    """Step until nothing is left; returns the time it took."""
    now = 0.0
    for _ in range(steps):
        step = engine.plan(now)
        if step is None:
            return now
        now += step.seconds
        for sequence in engine.complete(step, now):
            if sequence.generated_tokens >= sequence.output_tokens:
                engine.remove(sequence)
    raise AssertionError("the engine did not come to an end")


def test_a_long_prompt_takes_as_many_steps_as_the_budget_needs():
    engine = scheduler()
    engine.add(prompt(1200))
    chunks = []
    while (step := engine.plan(0.0)) is not None:
        chunks.append(step.prefill_tokens)
        for sequence in engine.complete(step, 0.0):
            engine.remove(sequence)
    assert chunks == [512, 512, 176]


def test_decoding_goes_first_and_prefill_gets_what_is_left():
    engine = scheduler()
    first, long = prompt(10, output=50), prompt(2000)
    engine.add(first)
    engine.complete(engine.plan(0.0), 0.0)
    engine.add(long)
    step = engine.plan(0.0)
    assert dict(step.work) == {first: 1, long: 511}


def test_without_a_threshold_a_long_prompt_keeps_others_waiting():
    engine = scheduler()
    long, short = prompt(3500), prompt(64)
    engine.add(long)
    engine.add(short)
    assert dict(engine.plan(0.0).work) == {long: 512}


def test_with_a_threshold_a_short_prompt_goes_beside_the_long_one():
    engine = scheduler(long_prefill_threshold=256)
    long, short = prompt(3500), prompt(64)
    engine.add(long)
    engine.add(short)
    assert dict(engine.plan(0.0).work) == {long: 256, short: 64}


def test_without_chunked_prefill_a_prompt_goes_whole_or_not_at_all():
    engine = scheduler(chunked_prefill=False, max_batched_tokens=1000)
    first, second = prompt(800), prompt(400)
    engine.add(first)
    engine.add(second)
    assert dict(engine.plan(0.0).work) == {first: 800}


def test_no_more_sequences_run_than_may():
    engine = scheduler(max_sequences=3)
    for _ in range(5):
        engine.add(prompt(10, output=5))
    engine.plan(0.0)
    assert (len(engine.running), len(engine.waiting)) == (3, 2)


def test_when_blocks_run_out_the_last_one_starts_over():
    engine = scheduler(kv_blocks=6, block_tokens=16)
    first, last = prompt(30, output=40), prompt(30, output=30)
    engine.add(first)
    engine.add(last)
    run(engine)
    assert first.preemptions == 0
    assert last.preemptions >= 1
    assert engine.preemptions == last.preemptions
    assert (first.generated_tokens, last.generated_tokens) == (40, 30)


def test_a_step_costs_what_the_profile_says():
    engine = scheduler()
    engine.add(prompt(100, output=3))
    prefill = engine.plan(0.0)
    assert prefill.seconds == pytest.approx(
        PROFILE.step_seconds + 100 * PROFILE.prefill_token_seconds + 5000 * PROFILE.prefill_context_seconds
    )
    engine.complete(prefill, 0.0)
    decode = engine.plan(0.0)
    assert decode.seconds == pytest.approx(
        PROFILE.step_seconds + PROFILE.decode_sequence_seconds + 100 * PROFILE.kv_token_seconds
    )


def test_blocks_kept_for_another_engine_stay_taken_until_released():
    engine = scheduler()
    sequence = prompt(64)
    engine.add(sequence)
    engine.complete(engine.plan(0.0), 0.0)
    engine.remove(sequence, keep_blocks=True)
    assert engine.blocks_used == 4
    engine.release_blocks(sequence)
    assert engine.blocks_used == 0


def test_fetched_kv_leaves_one_token_to_compute():
    engine = scheduler()
    sequence = prompt(1000, output=2)
    assert engine.begin_transfer(sequence)
    assert engine.plan(0.0) is None
    engine.end_transfer(sequence)
    assert dict(engine.plan(0.0).work) == {sequence: 1}


requests = st.lists(st.tuples(st.integers(1, 600), st.integers(1, 40)), min_size=1, max_size=12)


@settings(deadline=None)
@given(
    requests,
    st.integers(1, 700),
    st.integers(1, 6),
    st.integers(40, 120),
    st.sampled_from([0, 32, 256]),
    st.lists(st.integers(0, 11), max_size=3),
)
def test_whatever_comes_limits_hold_and_everything_ends(asked, budget, most, blocks, threshold, aborted):
    engine = scheduler(
        max_batched_tokens=budget, max_sequences=most, kv_blocks=blocks, long_prefill_threshold=threshold
    )
    sequences = [prompt(tokens, output) for tokens, output in asked]
    for sequence in sequences:
        assert engine.fits_at_all(sequence.prompt_tokens + sequence.output_tokens)
        engine.add(sequence)
    left = set(sequences)
    now = 0.0
    for number in range(100_000):
        if number == 3:
            for index in aborted:
                if index < len(sequences) and sequences[index] in left:
                    left.discard(sequences[index])
                    engine.remove(sequences[index])
        step = engine.plan(now)
        if step is None:
            break
        assert sum(tokens for _, tokens in step.work) <= budget
        assert len(engine.running) <= most
        assert 0 < engine.blocks_used <= blocks
        assert sum(sequence.blocks for sequence in sequences) == engine.blocks_used
        assert all(sequence.phase is Phase.RUNNING for sequence, _ in step.work)
        now += step.seconds
        for sequence in engine.complete(step, now):
            if sequence.generated_tokens == sequence.output_tokens:
                left.discard(sequence)
                engine.remove(sequence)
    assert not left
    assert engine.blocks_used == 0
