"""ALGORITHM 4.9: where prompts and answers share the workers' steps, either promise limits both."""

import math
from dataclasses import replace
from functools import cache

import pytest

from tandem_api import names
from tandem_autoscaler.decide.need_colocated import REQUESTS_PER_WORKER
from tandem_autoscaler.decide.state import ServiceState
from tandem_autoscaler.fleet.observe import observe
from tandem_autoscaler.model.decode import DecodePrior
from tandem_autoscaler.model.mixed import MixedModel
from tandem_autoscaler.model.mixed_step import Chunking
from tests.autoscaler.chunk_grid import DEFAULT, KINDS
from tests.autoscaler.colocated_pool import ColocatedPool

# 8B and 70B, long and short prompts and answers, limited by either promise.
CASES = (
    ("chat", DEFAULT), ("documents", DEFAULT), ("10 % of 8,000 tokens", DEFAULT), ("chat, 70B", DEFAULT),
    ("the same, strict TPOT", Chunking(256, 32)), ("short answers", Chunking(1024, 512)),
    ("documents, 70B", Chunking(8192, 4096)),
)  # fmt: skip
CASE = pytest.mark.parametrize(
    "name, chunking", CASES, ids=[f"{n}, {c.budget}/{c.threshold}" for n, c in CASES]
)


@cache
def rate_of(name: str, chunking: Chunking) -> float:
    """What seven workers of such requests are about right for."""
    return 7.0 * KINDS[name].predicted_capacity(chunking)


@cache
def fewest(name: str, chunking: Chunking) -> int:
    """By simulation, the workers of which 95 % of the requests keep both promises."""
    return next(
        workers
        for workers in range(2, 20)
        if ColocatedPool(KINDS[name], chunking, rate=rate_of(name, chunking), workers=workers).late() <= 0.05
    )


@cache
def pool(name: str, chunking: Chunking, beside: int) -> ColocatedPool:
    """So many workers more, or fewer, than the fewest."""
    workers = fewest(name, chunking) + beside
    return ColocatedPool(KINDS[name], chunking, rate=rate_of(name, chunking), workers=workers)


def needed(state: ServiceState, rate: float) -> int:
    assert state.rated is not None and state.rated.requests_per_second > 0
    return math.ceil(rate / state.rated.requests_per_second)


@CASE
def test_a_pool_that_is_one_too_small_grows_at_once_to_what_keeps_both_promises(
    name: str, chunking: Chunking
) -> None:
    """At most one too few, and two too many where more workers help little."""
    truth = fewest(name, chunking)
    state, decision = pool(name, chunking, -1).decided()
    assert -1 <= needed(state, rate_of(name, chunking)) - truth <= 2, decision.message
    assert decision.target >= truth, decision.message


@CASE
def test_a_pool_of_twice_as_many_shrinks_and_asks_for_no_fewer_than_that(
    name: str, chunking: Chunking
) -> None:
    """Small batches tell less of a step, rather too much than too little; where workers are idle, nothing."""
    truth = fewest(name, chunking)
    state, decision = pool(name, chunking, truth).decided()
    assert truth - 1 <= decision.target < 2 * truth, decision.message
    if state.rated is not None:
        assert needed(state, rate_of(name, chunking)) >= truth - 1


@CASE
def test_a_steps_parts_are_learnt_from_how_many_there_were(name: str, chunking: Chunking) -> None:
    """At a constant load, where times per prompt and per token cannot tell them apart."""
    kind = KINDS[name]
    state, _ = pool(name, chunking, 0).decided()
    learnt, true = state.mixed.step, kind.model.step
    assert learnt is not None
    assert learnt.base == pytest.approx(true.base, rel=0.2)
    traffic = kind.traffic(1.0)
    work = [
        sum(step.of_prompt(tokens) * share for tokens, share in traffic.prompts) for step in (learnt, true)
    ]
    assert work[0] == pytest.approx(work[1], rel=0.25)


def test_the_message_says_what_one_worker_serves_and_what_limits_it() -> None:
    _, decision = pool("chat, 70B", DEFAULT, -1).decided()
    each = decision.numbers[REQUESTS_PER_WORKER]
    assert each == pytest.approx(KINDS["chat, 70B"].predicted_capacity(DEFAULT), rel=0.15)
    assert "with both promises kept, and more would be late with their tokens" in decision.message
    assert decision.why.value == "TPOTNeed"


def test_an_engine_without_our_gate_is_known_as_well() -> None:
    case = ("chat", DEFAULT)
    stock = ColocatedPool(KINDS["chat"], DEFAULT, rate=rate_of(*case), workers=fewest(*case), gate=False)
    state, _ = stock.decided()
    assert abs(needed(state, rate_of(*case)) - fewest(*case)) <= 1


def test_a_worker_is_rated_now_and_then_and_at_once_on_other_terms() -> None:
    """A prediction takes longer than all the rest of a tick."""
    state, _ = pool("chat", DEFAULT, 0).decided()
    assert state.rated is not None
    assert 0 < state.history.now_seconds - state.rated.at_seconds < 60
    mix, terms = (state.rated.prompt_tokens, state.rated.output_tokens), state.rated.terms
    assert state.rated.answers(mix, terms, 0.1)
    assert not state.rated.answers((1.2 * mix[0], mix[1]), terms, 0.1)
    assert not state.rated.answers(mix, "a stricter promise", 0.1)


def test_a_smart_queue_lets_a_colocated_pool_be_smaller() -> None:
    """Where the first token limits it; late demotion makes up for a pool that is too small (ALGORITHM 7c)."""
    case = ("short answers", Chunking(1024, 512))
    plain, bold = (pool(*case, 0).decided(late_demotion=smart)[0] for smart in (False, True))
    assert plain.rated is not None and bold.rated is not None and plain.rated.first_is_late
    assert bold.rated.requests_per_second > plain.rated.requests_per_second


def test_nothing_is_known_of_workers_that_may_have_been_idle_or_of_engines_that_do_not_mix() -> None:
    model = MixedModel()
    for few in ({"running": 2.0}, {"steps": 0.0}, {"seconds": 0.0}):
        measured = {"seconds": 5.0, "steps": 100.0, "tokens": 500.0, "context_tokens": 900.0, "prompt_work": 9000.0,
                    "running": 5.0}  # fmt: skip
        assert model.sample(**measured) is not None
        assert model.sample(**{**measured, **few}) is None
    assert model.step is None
    assert model.learn(1.0, []) is model
    prior = DecodePrior()
    assert (
        replace(model, coefficients=(prior.base_seconds, prior.seconds_per_sequence, 0.0, 0.0)).step is None
    )


@pytest.mark.parametrize(
    ("spec", "mixes"),
    [
        ({"mode": "Colocated", "workers": {}}, True),
        ({"mode": "Colocated", "workers": {}, "engine": {"type": "sglang"}}, False),
        ({"mode": "Disaggregated", "prefill": {}, "decode": {}}, False),
    ],
)
def test_only_vllm_computes_prompts_and_answers_in_the_same_steps(
    spec: dict[str, object], mixes: bool
) -> None:
    manifest = {
        "metadata": {"namespace": "n", "name": "chat", "uid": "u"},
        "spec": {"model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"}, **spec},
    }
    roles = [names.WORKERS] if spec["mode"] == "Colocated" else [names.PREFILL, names.DECODE]
    pools = [
        {
            "metadata": {"namespace": "n", "name": f"chat-{role}", "labels": {names.LABEL_SERVICE: "chat"}},
            "spec": {"service": "chat", "role": role, "replicas": 1},
        }
        for role in roles
    ]
    ((service,), broken) = observe([manifest], pools, [])
    assert not broken
    assert [pool.chunking is not None for pool in service.pools.values()] == [mixes] * len(roles)
