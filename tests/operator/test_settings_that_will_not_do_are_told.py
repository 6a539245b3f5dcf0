"""SettingsSound: what only the model or the cluster can tell (field cases E4, E5, E9). It holds nothing back."""

from dataclasses import replace
from typing import Any

import pytest

from tandem_operator.observe.observe import observe
from tandem_operator.plan.admission import settings_sound
from tandem_operator.plan.plan import plan
from tandem_operator.plan.settings import Settings
from tests.operator.fleet import Fleet, colocated, spec

LLAMA = {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"}
CLAIM = {"uri": "pvc://weights/llama"}


def told(wish: dict[str, Any], modes: tuple[str, ...] | None = None) -> tuple[str, str] | None:
    fleet = Fleet(wish)
    observed = replace(observe(fleet.service, fleet.objects), claim_modes=modes)
    assert observed.spec is not None, observed.spec_error
    verdict = settings_sound(observed)
    decided = plan(observed, fleet.now, Settings())
    conditions = {c["type"]: c for c in decided.status["conditions"]} if decided.status else {}
    assert ("SettingsSound" in conditions) == (verdict is not None), "absent while there is nothing to tell"
    assert decided.actions, "it holds nothing back"
    return None if verdict is None else (str(verdict.reason), verdict.message)


def test_a_budget_below_the_models_own_length_is_told_when_chunking_is_off() -> None:
    off = {"chunkedPrefill": {"enabled": False, "maxBatchedTokens": 8192}}
    found = told(colocated(model=LLAMA, engine=off))
    assert found is not None
    assert found[0] == "TokenBudgetTooSmall"
    assert "8192 is less than the model's 131072 tokens" in found[1]
    assert "set engine.maxModelLen to 8192 or less" in found[1]
    assert told(colocated(model=LLAMA, engine={**off, "maxModelLen": 8192})) is None
    assert told(colocated(model=LLAMA, engine={"chunkedPrefill": {"maxBatchedTokens": 8192}})) is None
    assert told(colocated(model={"uri": "hf://nobody/knows-this"}, engine=off)) is None, (
        "unknown is not too small"
    )


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteOncePod",)])
@pytest.mark.parametrize("workers", [{"maxReplicas": 2}, {"nodes": 2, "gpus": 1}])
def test_a_claim_of_one_node_and_several_pods(modes: tuple[str, ...], workers: dict[str, Any]) -> None:
    found = told(colocated(model=CLAIM, workers=workers), modes)
    assert found is not None
    assert found[0] == "VolumeNotShared"
    assert "claim weights" in found[1]
    assert modes[0] in found[1]
    assert "ReadOnlyMany or ReadWriteMany" in found[1]


@pytest.mark.parametrize(
    ("workers", "modes"),
    [
        ({"maxReplicas": 4}, ("ReadWriteMany",)),
        ({"maxReplicas": 4}, ("ReadWriteOnce", "ReadOnlyMany")),
        ({"maxReplicas": 1}, ("ReadWriteOnce",)),
        ({"maxReplicas": 4}, None),
    ],
)
def test_a_claim_that_will_do_or_is_not_known(workers: dict[str, Any], modes: tuple[str, ...] | None) -> None:
    assert told(colocated(model=CLAIM, workers=workers), modes) is None


def test_prefill_and_decode_of_one_claim_are_two_pods() -> None:
    found = told(spec(model=CLAIM), ("ReadWriteOnce",))
    assert found is not None
    assert found[0] == "VolumeNotShared"


def test_different_tensor_parallel_sizes_are_told_where_the_connector_does_not_bear_them() -> None:
    sizes = {"prefill": {"gpus": 2}, "decode": {"gpus": 4}}
    found = told(spec(engine={"type": "sglang"}, **sizes))
    assert found is not None
    assert found[0] == "ParallelismDiffers"
    assert "prefill 2, decode 4" in found[1]
    assert told(spec(**sizes)) is None, "NIXL under vLLM reads across them"
    assert told(spec(engine={"type": "sglang"}, prefill={"gpus": 2}, decode={"gpus": 2})) is None
