"""The typed settings of issue 6 on vLLM's command line, and what prefill and decode must have alike (E3, E5, E7, E12).
Flags as of vLLM 0.32 (`vllm/engine/arg_utils.py`)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api.inference_service import Role
from tandem_operator.build.flags import flag_value, merge_flags
from tandem_operator.build.images import Images
from tandem_operator.build.template_hash import template_hash
from tandem_operator.build.worker_pod import worker_pods
from tandem_operator.observe.spec import read_spec
from tests.operator.fleet import colocated, spec
from tests.operator.rendered import args, typed, value


def refusal(wish: dict[str, Any]) -> str:
    read, sentence = read_spec(wish)
    assert read is None
    assert "\n" not in str(sentence)
    return str(sentence)


def test_the_settings_that_this_version_adds() -> None:
    engine = {"blockSize": 32, "gpuMemoryPercent": 85, "speculative": {"method": "ngram", "tokens": 5}}
    model = {"uri": "hf://a/b", "revision": "v2"}
    words = args(colocated(engine=engine, model=model, workers={"gpus": 8, "dataParallel": 2}))
    assert value(words, "--block-size") == "32"
    assert value(words, "--gpu-memory-utilization") == "0.85"
    assert value(words, "--revision") == "v2"
    assert value(words, "--tensor-parallel-size") == "4"
    assert value(words, "--data-parallel-size") == "2"
    assert json.loads(value(words, "--speculative-config")) == {
        "method": "ngram",
        "num_speculative_tokens": 5,
    }


@pytest.mark.parametrize(
    ("method", "theirs"), [("eagle", "eagle"), ("eagle3", "eagle3"), ("draft", "draft_model")]
)
def test_a_draft_model_is_named(method: str, theirs: str) -> None:
    words = args(colocated(engine={"speculative": {"method": method, "model": "a/head"}}))
    assert json.loads(value(words, "--speculative-config")) == {
        "method": theirs, "model": "a/head", "num_speculative_tokens": 3,
    }  # fmt: skip


def test_a_role_has_its_own_where_it_may() -> None:
    wish = spec(
        engine={"gpuMemoryPercent": 90},
        decode={"engine": {"gpuMemoryPercent": 95, "speculative": {"method": "ngram"}}},
    )
    assert value(args(wish, "prefill"), "--gpu-memory-utilization") == "0.9"
    assert value(args(wish, "decode"), "--gpu-memory-utilization") == "0.95"
    assert "--speculative-config" not in args(wish, "prefill")


def test_what_is_not_said_changes_no_hash() -> None:
    """A new version of the operator restarts nothing: its new fields are not in the hash until they are said."""
    for wish in (spec(), colocated()):
        read = typed(wish)
        for role in read.roles.values():
            said = {**read.to_wire(), "engine": {**read.engine.to_wire()}}
            again = typed(said)
            assert template_hash("chat", again, next(iter(again.roles.values()))) == template_hash(
                "chat", read, role
            )


@pytest.mark.parametrize(
    "engine",
    [{"blockSize": 32}, {"gpuMemoryPercent": 80}, {"speculative": {"method": "ngram"}}],
)
def test_what_is_said_restarts(engine: dict[str, Any]) -> None:
    before, after = typed(colocated()), typed(colocated(engine=engine))
    assert template_hash("chat", before, before.roles["workers"]) != template_hash(
        "chat", after, after.roles["workers"]
    )


# --- E3: the user's flags -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words",
    [
        ["--max-model-len", "4096"], ["--max-model-len=4096"], ["--max_model_len", "4096"], ["--max_model_len=4096"],
        ["--port=9"], ["--kv_transfer_config={}"], ["--served-model-name", "x"], ["--block_size=16"], ["-q=fp8"],
        ["--no-enable-chunked-prefill"], ["--revision=main"], ["--speculative-config", "{}"], ["-tp=2"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["engine", "workers"])
def test_a_second_word_for_what_has_a_field_is_refused_in_every_spelling(
    words: list[str], where: str
) -> None:
    own = {"extraArgs": words}
    wish = colocated(engine=own) if where == "engine" else colocated(workers={"engine": own})
    assert "which Tandem sets itself" in refusal(wish)


def test_what_has_no_field_comes_once_and_the_users_last_word_stands() -> None:
    wish = colocated(
        engine={"gpuMemoryPercent": 90, "extraArgs": ["--gpu_memory_utilization=0.7", "--seed", "1"]},
        workers={"engine": {"extraArgs": ["--seed=2", "--enable-sleep-mode", "--no-enable-sleep-mode"]}},
    )
    words = args(wish)
    assert [word for word in words if "utilization" in word] == ["--gpu_memory_utilization=0.7"]
    assert [word for word in words if "seed" in word] == ["--seed=2"]
    assert [word for word in words if "sleep" in word] == ["--no-enable-sleep-mode"]


@given(st.lists(st.sampled_from(["--a=1", "--a", "--a_b=2", "--no-a", "--b", "3"]), max_size=8))
def test_a_flags_value_is_that_of_its_last_word(words: list[str]) -> None:
    merged = merge_flags(words)
    for flag in ("a", "a-b", "b"):
        assert flag_value(words, flag) == flag_value(merged, flag)


# --- E5: prefill and decode -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("prefill", "decode", "said"),
    [
        (["--dtype=float16"], [], "prefill says 'float16', decode has none"),
        (["--dtype", "half"], ["--dtype=bfloat16"], "prefill says 'half', decode says 'bfloat16'"),
        ([], ["--hf_overrides", "{}"], "prefill has none, decode says '{}'"),
    ],
)
def test_flags_that_shape_the_kv_cache_must_be_the_same(
    prefill: list[str], decode: list[str], said: str
) -> None:
    wish = spec(prefill={"engine": {"extraArgs": prefill}}, decode={"engine": {"extraArgs": decode}})
    sentence = refusal(wish)
    assert "prefill and decode must agree on --" in sentence
    assert said in sentence


def test_the_same_flag_in_both_spellings_agrees() -> None:
    read_spec_ok = spec(
        engine={"extraArgs": ["--dtype", "float16"]}, decode={"engine": {"extraArgs": ["--dtype=float16"]}}
    )
    assert typed(read_spec_ok)


def test_a_draft_model_on_one_side_only_is_refused() -> None:
    own = {"engine": {"speculative": {"method": "eagle3", "model": "a/head"}}}
    assert "must have the same engine.speculative" in refusal(spec(decode=own))
    assert typed(spec(engine=own["engine"]))


# --- E7, E12: GPUs --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("workers", "sizes"),
    [
        ({"gpus": 8, "nodes": 2, "tensorParallel": 16}, (16, 1)),
        ({"gpus": 1, "nodes": 2, "tensorParallel": 2}, (2, 1)),
        ({"gpus": 8, "nodes": 2}, (8, 2)),
        ({"gpus": 8, "tensorParallel": 2, "pipelineParallel": 4}, (2, 4)),
        ({"gpus": 8, "dataParallel": 4}, (2, 1)),
        ({"gpus": 0}, (1, 1)),
    ],
)
def test_sizes_follow_from_the_gpus(workers: dict[str, Any], sizes: tuple[int, int]) -> None:
    role = typed(colocated(workers=workers)).roles["workers"]
    assert (role.tensor_size, role.pipeline_size) == sizes


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ({"gpus": 8, "tensorParallel": 16}, "needs 16 GPUs, and nodes 1 x gpus 8 is 8; set nodes: 2"),
        ({"gpus": 1, "tensorParallel": 2}, "needs 2 GPUs, and nodes 1 x gpus 1 is 1; set nodes: 2"),
        (
            {"gpus": 4, "nodes": 2, "tensorParallel": 6},
            "needs 6 GPUs, and nodes 2 x gpus 4 is 8; make them equal",
        ),
        ({"gpus": 4, "tensorParallel": 2}, "make them equal"),
        ({"gpus": 8, "dataParallel": 3}, "dataParallel 3 must divide nodes x gpus, which is 8"),
        ({"gpus": 8, "engine": {"extraArgs": ["--data-parallel-size=2"]}}, "set dataParallel of the role"),
    ],
)
def test_sizes_that_leave_gpus_idle_or_lack_them_are_refused(workers: dict[str, Any], words: str) -> None:
    assert words in refusal(colocated(workers=workers))


@given(
    gpus=st.integers(0, 16), nodes=st.integers(1, 4), tensor=st.integers(1, 64) | st.none(),
    pipeline=st.integers(1, 8) | st.none(), copies=st.integers(1, 8),
)  # fmt: skip
def test_an_admitted_worker_uses_each_of_its_gpus_once(
    gpus: int, nodes: int, tensor: int | None, pipeline: int | None, copies: int
) -> None:
    workers: dict[str, Any] = {"gpus": gpus, "nodes": nodes, "dataParallel": copies}
    workers |= {"tensorParallel": tensor} if tensor else {}
    workers |= {"pipelineParallel": pipeline} if pipeline else {}
    read, _ = read_spec(colocated(workers=workers))
    if read is not None and gpus:
        role: Role = read.roles["workers"]
        used = role.tensor_size * role.pipeline_size * role.data_parallel
        assert used == role.total_gpus or (
            tensor is None and copies * (role.pipeline_size) > 0 and used <= gpus * nodes
        )
        if tensor is not None:
            assert role.tensor_size == tensor
            assert used == role.total_gpus


@pytest.mark.parametrize("resource", ["nvidia.com/mig-3g.40gb", "amd.com/gpu", "nvidia.com/gpu"])
def test_a_pod_asks_for_that_resource_alone(resource: str) -> None:
    read = typed(colocated(workers={"gpus": 2, "gpuResource": resource}))
    (pod,) = worker_pods(
        namespace="ns", service="chat", spec=read, role_name="workers", ordinal=0, owner={}, images=Images()
    )
    (engine,) = pod["spec"]["containers"]
    assert engine["resources"] == {"limits": {resource: "2"}}
    assert value(engine["args"], "--tensor-parallel-size") == "2"


def test_roles_may_run_on_different_gpus_by_node_selection() -> None:
    """H100 for prefill, H200 for decode."""
    selected = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    read = typed(spec(decode={"template": {"spec": {"nodeSelector": selected}}}))
    pods = {
        role: worker_pods(
            namespace="ns", service="chat", spec=read, role_name=role, ordinal=0, owner={}, images=Images()
        )[0]
        for role in read.roles
    }
    assert pods["decode"]["spec"]["nodeSelector"] == selected
    assert "nodeSelector" not in pods["prefill"]["spec"]
    hashes = {pod["metadata"]["labels"]["tandem.dev/template-hash"] for pod in pods.values()}
    assert len(hashes) == 2, "another GPU is another template: no worker changes its role across them"


# --- E8: shared memory ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("size", "volume"),
    [(None, {"medium": "Memory"}), ("20Gi", {"medium": "Memory", "sizeLimit": "20Gi"})],
)
def test_shared_memory_is_as_large_as_asked(size: str | None, volume: dict[str, str]) -> None:
    read = typed(colocated(workers={"gpus": 2, **({"shmSize": size} if size else {})}))
    (pod,) = worker_pods(
        namespace="ns", service="chat", spec=read, role_name="workers", ordinal=0, owner={}, images=Images()
    )
    assert [entry["emptyDir"] for entry in pod["spec"]["volumes"] if "emptyDir" in entry] == [volume]
