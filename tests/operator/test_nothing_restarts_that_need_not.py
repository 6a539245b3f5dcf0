"""The template hash and the rendering (field cases D3, D4, D5, H10)."""

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.canonical import canonical_json
from tandem_operator.build.images import Images
from tandem_operator.build.template_hash import template_hash
from tandem_operator.plan.settings import Settings
from tests.operator.fleet import Fleet, spec

FULL = spec(
    engine={"maxModelLen": 8192, "chunkedPrefill": {"maxBatchedTokens": 512}, "extraArgs": ["--seed", "1"]},
    slo={"ttft": "1s", "tpot": "40ms"},
    decode={
        "template": {"spec": {"nodeSelector": {"a": "1", "b": "2"}, "containers": [
            {"name": "engine", "resources": {"limits": {"cpu": "500m", "memory": "2Gi"}}}]}}
    },
)  # fmt: skip


def hashes(wish: dict[str, Any]) -> tuple[str, str]:
    typed = InferenceServiceSpec.model_validate(wish)
    return template_hash("chat", typed, typed.roles["prefill"]), template_hash(
        "chat", typed, typed.roles["decode"]
    )


def changed(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(FULL), **changes}


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


@given(st.randoms(use_true_random=False))
def test_the_order_of_keys_is_no_change(chance: random.Random) -> None:
    assert hashes(shuffled(FULL, chance)) == hashes(FULL)
    one, other = Fleet(copy.deepcopy(FULL)), Fleet(shuffled(FULL, chance))
    assert canonical_json([apply.manifest for apply in one.plan().objects]) == canonical_json(
        [apply.manifest for apply in other.plan().objects]
    )
    assert canonical_json([action.manifest for action in one.plan().actions]) == canonical_json(  # type: ignore[union-attr]
        [action.manifest for action in other.plan().actions]  # type: ignore[union-attr]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"slo": {"ttft": "2s", "tpot": "80ms"}},
        {"gpuBudget": 12},
        {"drain": {"deadline": "60s"}},
        {"router": {"replicas": 3}},
        {"autoscaling": {"mode": "Auto"}},
        {"prefill": {"minReplicas": 3, "maxReplicas": 5}},
    ],
)
def test_what_the_running_engine_does_not_feel_restarts_nothing(change: dict[str, Any]) -> None:
    assert hashes(changed(**change)) == hashes(FULL)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"uri": "hf://other/model"}},
        {"engine": {"maxModelLen": 4096}},
        {"mode": "Colocated"},
    ],
)
def test_what_the_engine_feels_restarts_both_roles(change: dict[str, Any]) -> None:
    wish = changed(**change)
    if wish["mode"] == "Colocated":
        typed = InferenceServiceSpec.model_validate(
            {k: v for k, v in wish.items() if k not in ("prefill", "decode")}
        )
        assert template_hash("chat", typed, typed.roles["workers"]) not in hashes(FULL)
        return
    assert not set(hashes(wish)) & set(hashes(FULL))


def test_late_demotion_restarts_both_roles_and_leaves_them_alike() -> None:
    without, said, on = (
        hashes(spec(engine=engine)) for engine in ({}, {"lateDemotion": False}, {"lateDemotion": True})
    )
    assert without == said, "a field that a later version brings restarts nothing"
    assert not set(on) & set(without)
    assert on[0] == on[1]


def test_editing_decode_leaves_prefill_alone() -> None:
    decode = {"template": {"spec": {"containers": [{"name": "engine", "image": "other:1"}]}}}
    before, after = hashes(FULL), hashes(changed(decode=decode))
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_both_roles_have_one_hash_when_they_render_the_same() -> None:
    """So that an idle prefill worker can become a decode worker."""
    prefill, decode = hashes(spec(prefill={"minReplicas": 1, "maxReplicas": 6}, decode={"maxReplicas": 2}))
    assert prefill == decode


@pytest.mark.parametrize(("one", "other"), [("500m", "0.5"), ("2Gi", "2048Mi"), (1, "1")])
def test_another_spelling_of_a_quantity_is_no_change(one: Any, other: Any) -> None:
    def wish(amount: Any) -> dict[str, Any]:
        limits = {"spec": {"containers": [{"name": "engine", "resources": {"limits": {"cpu": amount}}}]}}
        return changed(decode={"template": limits})

    assert hashes(wish(one)) == hashes(wish(other))


def test_a_new_default_image_or_operator_restarts_nothing() -> None:
    fleet = Fleet(copy.deepcopy(FULL))
    fleet.settle()
    workers = {pod["metadata"]["uid"] for pod in fleet.pods()}
    fleet.settings = Settings(images=Images(worker="vllm/vllm-openai:v9", router="router:9"))
    fleet.settle()
    assert {pod["metadata"]["uid"] for pod in fleet.pods()} == workers


def test_defaults_that_the_server_fills_in_are_no_change() -> None:
    """The stored object has every default written out; the user's manifest has not."""
    stored = InferenceServiceSpec.model_validate(FULL).model_dump(
        by_alias=True, exclude_none=True, mode="json"
    )
    assert hashes(stored) == hashes(FULL)
    one, other = Fleet(copy.deepcopy(FULL)), Fleet(stored)
    one.settle()
    other.objects = copy.deepcopy(one.objects)
    other.service["status"] = copy.deepcopy(one.service["status"])
    other.now = one.now
    other.settle()
    assert other.writes == 0
