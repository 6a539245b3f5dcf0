"""Issue 6: on simulated fleets with a planted bottleneck the right one is named, and the first fix helps most."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_autoscaler.decide.settings import Settings
from tandem_autoscaler.diagnose.bottleneck import Bottleneck
from tandem_autoscaler.diagnose.diagnosis import diagnose
from tandem_autoscaler.diagnose.fixes import Kind
from tandem_autoscaler.diagnose.machine import Change
from tandem_autoscaler.diagnose.plant import Plant
from tandem_autoscaler.model.decode import DecodeModel
from tests.autoscaler.planted_fleets import FLEETS, diagnosis, fixed, run

SICK = [name for name, planted in FLEETS.items() if planted.truth is not Bottleneck.HEALTHY]
# The catalogue has no 4-bit weights, so their effect cannot be simulated.
NOT_SIMULATED = {Kind.FOUR_BIT_WEIGHTS}


@pytest.mark.parametrize("name", FLEETS)
def test_the_right_one_is_named(name: str) -> None:
    found = diagnosis(FLEETS[name])
    assert found.bottleneck is FLEETS[name].truth, found
    assert found.sentence and found.evidence


@pytest.mark.parametrize("name", SICK)
def test_the_first_fix_helps_most_when_simulated(name: str) -> None:
    planted = FLEETS[name]
    outcomes = {}
    for fix in diagnosis(planted).fixes:
        after = fixed(planted, fix)
        if after is not None:
            outcomes[fix.kind] = run(after).in_time
    first = diagnosis(planted).fixes[0].kind
    assert first in outcomes or first in NOT_SIMULATED
    best_first = next(iter(outcomes.values()))
    assert best_first >= max(outcomes.values()) - 0.02, outcomes
    assert best_first >= run(planted).in_time + 0.05 and best_first >= 0.95, outcomes


@pytest.mark.parametrize("name", SICK)
def test_a_fix_that_is_predicted_to_suffice_does_when_simulated(name: str) -> None:
    planted = FLEETS[name]
    for fix in diagnosis(planted).fixes:
        after = fixed(planted, fix)
        if after is not None and fix.in_time is not None and fix.in_time >= 0.97:
            # A sweep's worker at twice the GPUs gains less than the data sheet's.
            least = 0.85 if fix.kind is Kind.MORE_GPUS_PER_WORKER else 0.94
            assert run(after).in_time >= least, fix


def test_a_healthy_fleet_is_left_alone() -> None:
    for name, planted in FLEETS.items():
        if planted.truth is Bottleneck.HEALTHY:
            assert diagnosis(planted).fixes == (), name


def test_a_full_decode_is_never_answered_with_prefill_workers() -> None:
    """llm-d#1325: the prefill workers hold what decode does not take, and look busy."""
    found = diagnosis(FLEETS["a decode so full that first tokens wait for it"])
    assert Kind.MORE_PREFILL not in {fix.kind for fix in found.fixes}


def test_more_workers_are_not_offered_for_prompts_that_are_too_long_by_themselves() -> None:
    found = diagnosis(FLEETS["prompts that take longer than the target by themselves"])
    assert {Kind.MORE_PREFILL, Kind.LATE_DEMOTION}.isdisjoint(fix.kind for fix in found.fixes)
    assert "more workers cannot help" in found.sentence


def test_where_the_worker_is_unknown_no_other_one_is_predicted() -> None:
    facts = replace(run(FLEETS["more tokens than the decode workers can make in time"]).facts, machines={})
    found = diagnose(facts)
    assert found.bottleneck is Bottleneck.DECODE and found.fixes[0].kind is Kind.MORE_DECODE
    hardware = {Kind.FP8_WEIGHTS, Kind.FASTER_GPU, Kind.MORE_BANDWIDTH, Kind.MORE_GPUS_PER_WORKER}
    assert hardware.isdisjoint(fix.kind for fix in found.fixes)


def test_a_fix_beyond_the_limits_says_which() -> None:
    facts = run(FLEETS["more prompts than the prefill workers can compute"]).facts
    pools = {role: replace(pool, maximum=3) for role, pool in facts.service.pools.items()}
    found = diagnose(replace(facts, service=replace(facts.service, pools=pools)))
    first = next(fix for fix in found.fixes if fix.kind is Kind.MORE_PREFILL)
    assert "prefill.maxReplicas is 3" in first.change


def test_a_fix_without_a_prediction_comes_after_those_with_one() -> None:
    for name in SICK:
        known = [fix.in_time is not None for fix in diagnosis(FLEETS[name]).fixes]
        assert known == sorted(known, reverse=True), name


@pytest.fixture(scope="module")
def a_plant() -> Plant:
    return Plant(
        settings=Settings(), allowance=0.05, prefill_workers=4, prompts=[(0.1, 0.8), (0.5, 0.2)], arrivals=12.0,
        arrival_scv=1.5, pooled=True, demotion=False, ttft_seconds=0.9, decode_workers=3, tokens_per_second=3000.0,
        decode=DecodeModel(
            base_seconds=0.01, seconds_per_sequence=1e-4, seconds_per_context_token=3e-8
        ).at_context(2000),
        tpot_seconds=0.03, slots=256.0, kv_room=150.0,
    )  # fmt: skip


loads, numbers = st.floats(0.1, 30.0), st.integers(1, 30)


@given(loads, st.floats(10.0, 20_000.0), numbers, numbers, st.floats(1.0, 3.0), numbers)
def test_more_load_never_serves_more_in_time_and_more_workers_never_fewer(
    a_plant: Plant, arrivals: float, tokens: float, prefill: int, decode: int, factor: float, more: int
) -> None:
    plant = replace(
        a_plant, arrivals=arrivals, tokens_per_second=tokens, prefill_workers=prefill, decode_workers=decode
    )
    now = plant.in_time()
    assert 0.0 <= now <= 1.0
    assert plant.loaded(factor).in_time() <= now + 1e-9
    assert replace(plant, prefill_workers=prefill + more).in_time() >= now - 1e-9
    assert replace(plant, decode_workers=decode + more).in_time() >= now - 1e-9
    assert replace(plant, demotion=True).in_time() >= now - 1e-9
    assert replace(plant, pooled=False).late_prefill() >= 0.0
    assert (
        plant.changed(decode=Change(step=0.5, sequence=0.5, context=0.5, kv_room=2.0)).in_time() >= now - 1e-9
    )
    assert plant.changed(prefill=Change(prompt=0.5)).in_time() >= now - 1e-9


def test_where_what_comes_by_chance_is_shared_fewer_decode_workers_suffice() -> None:
    """The autoscaler counts on it behind a router that looks at what each worker holds, so `diagnose` does too."""
    planted = FLEETS["more tokens than the decode workers can make in time"]
    assert run(planted).facts.decode_even and not run(replace(planted, router="random")).facts.decode_even
    facts = run(planted).facts
    assert facts.load.tokens is not None
    many = replace(facts, decode_need=None, load=replace(facts.load, tokens=8 * facts.load.tokens))
    workers = [
        next(fix.replicas for fix in diagnose(known).fixes if fix.kind is Kind.MORE_DECODE)
        for known in (many, replace(many, decode_even=False))
    ]
    assert None not in workers and workers[0] < workers[1], workers
