"""From spec.engine to the engine's command line (field cases E3, E4, E6, E7)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.engine_args import engine_args, model_place
from tandem_operator.build.flags import flag_name, flag_names, merge_flags
from tandem_operator.observe.spec import read_spec
from tests.operator.fleet import colocated, spec


def args(wish: dict[str, Any], role: str = "workers") -> list[str]:
    typed = InferenceServiceSpec.model_validate(wish)
    return engine_args("chat", typed, typed.roles[role], shutdown_timeout_seconds=300)


def value(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_the_model_comes_first_and_is_served_under_its_name() -> None:
    words = args(colocated())
    assert words[0] == "meta-llama/Llama-3.1-8B-Instruct"
    assert value(words, "--served-model-name") == "chat"
    assert value(words, "--port") == "8000"
    assert value(words, "--shutdown-timeout") == "300"


@pytest.mark.parametrize(
    ("uri", "argument", "claim"),
    [
        ("hf://org/model", "org/model", None),
        ("path:///models/tiny", "/models/tiny", None),
        ("pvc://weights/llama/8b", "/mnt/model/llama/8b", "weights"),
    ],
)
def test_where_the_model_is(uri: str, argument: str, claim: str | None) -> None:
    assert (model_place(uri).argument, model_place(uri).claim) == (argument, claim)


def test_every_setting_has_its_flag() -> None:
    engine = {
        "maxModelLen": 16384,
        "chunkedPrefill": {"maxBatchedTokens": 2048, "longPromptThreshold": 1024},
        "maxSequences": 256,
        "quantization": "fp8",
        "kvCacheDtype": "bf16",
        "prefixCaching": True,
        "extraArgs": ["--load-format", "dummy"],
    }
    words = args(colocated(engine=engine))
    assert value(words, "--max-model-len") == "16384"
    assert value(words, "--max-num-batched-tokens") == "2048"
    assert value(words, "--long-prefill-token-threshold") == "1024"
    assert value(words, "--max-num-seqs") == "256"
    assert value(words, "--quantization") == "fp8"
    assert value(words, "--kv-cache-dtype") == "bfloat16"
    assert "--enable-chunked-prefill" in words
    assert "--enable-prefix-caching" in words
    assert words[-2:] == ["--load-format", "dummy"]


def test_what_is_not_said_is_left_to_the_engine() -> None:
    words = args(colocated(workers={"gpus": 0}))
    assert [word for word in words if word.startswith("--")] == [
        "--served-model-name",
        "--port",
        "--shutdown-timeout",
    ]


def test_an_explicit_false_survives_to_the_command_line() -> None:
    words = args(colocated(engine={"chunkedPrefill": {"enabled": False}, "prefixCaching": False}))
    assert "--no-enable-chunked-prefill" in words
    assert "--no-enable-prefix-caching" in words


def test_a_role_overrides_field_by_field() -> None:
    wish = spec(
        engine={
            "chunkedPrefill": {"maxBatchedTokens": 2048, "longPromptThreshold": 1024},
            "maxSequences": 256,
        },
        decode={"engine": {"chunkedPrefill": {"maxBatchedTokens": 512}, "maxSequences": 64}},
    )
    prefill, decode = args(wish, "prefill"), args(wish, "decode")
    assert (value(prefill, "--max-num-batched-tokens"), value(prefill, "--max-num-seqs")) == ("2048", "256")
    assert (value(decode, "--max-num-batched-tokens"), value(decode, "--max-num-seqs")) == ("512", "64")
    assert value(decode, "--long-prefill-token-threshold") == "512"


def test_the_two_roles_differ_in_nothing_they_must_agree_on() -> None:
    wish = spec(engine={"maxModelLen": 8192, "kvCacheDtype": "fp8"})
    assert args(wish, "prefill") == args(wish, "decode")


def test_tensor_parallel_size_is_the_number_of_gpus() -> None:
    assert value(args(colocated(workers={"gpus": 4})), "--tensor-parallel-size") == "4"
    assert "--tensor-parallel-size" not in args(colocated(workers={"gpus": 0}))


def test_kv_transfer_is_for_disaggregated_services_only() -> None:
    config = json.loads(value(args(spec(), "prefill"), "--kv-transfer-config"))
    assert config == {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "fail"}
    on_cpu = json.loads(value(args(spec(decode={"gpus": 0}), "decode"), "--kv-transfer-config"))
    assert on_cpu["kv_buffer_device"] == "cpu"
    assert "--kv-transfer-config" not in args(colocated())


@pytest.mark.parametrize(
    ("words", "merged"),
    [
        (["--seed", "1", "--seed", "2"], ("--seed", "2")),
        (["--seed=1", "--seed", "2"], ("--seed", "2")),
        (["--a_b", "1", "--a-b=2"], ("--a-b=2",)),
        (["--enable-x", "--no-enable-x"], ("--no-enable-x",)),
        (["--list", "1", "2", "--other", "3"], ("--list", "1", "2", "--other", "3")),
        (["--offset", "-1"], ("--offset", "-1")),
    ],
)
def test_a_flag_said_twice_is_said_once_and_the_last_word_wins(
    words: list[str], merged: tuple[str, ...]
) -> None:
    assert merge_flags(words) == merged


def test_a_roles_extra_flag_replaces_the_services() -> None:
    wish = spec(engine={"extraArgs": ["--seed", "1"]}, decode={"engine": {"extraArgs": ["--seed=7"]}})
    assert [word for word in args(wish, "decode") if "seed" in word] == ["--seed=7"]
    assert value(args(wish, "prefill"), "--seed") == "1"


FLAG = st.from_regex(r"--(no-)?[a-z]([a-z_-]{0,6}[a-z])?(=[a-z0-9]{1,3})?", fullmatch=True)
WORDS = st.lists(st.one_of(FLAG, st.from_regex(r"-?[0-9]{1,3}", fullmatch=True)), max_size=12)


@given(WORDS)
def test_merging_leaves_each_flag_once_loses_none_and_is_idempotent(words: list[str]) -> None:
    merged = merge_flags(words)
    said = [name for word in merged if (name := flag_name(word))]
    assert len(said) == len(set(said))
    assert set(said) == flag_names(words)
    assert merge_flags(merged) == merged


@pytest.mark.parametrize(
    "flag", ["--port=9000", "--kv_transfer_config", "--served-model-name", "--no-enable-prefix-caching"]
)
def test_a_flag_that_tandem_owns_is_refused(flag: str) -> None:
    read, sentence = read_spec(colocated(engine={"extraArgs": [flag, "x"]}))
    assert read is None
    assert "which Tandem sets itself" in str(sentence)


def test_chunking_off_with_too_small_a_budget_is_refused_and_never_raised_in_silence() -> None:
    off = {"maxModelLen": 131072, "chunkedPrefill": {"enabled": False, "maxBatchedTokens": 8192}}
    assert "must be at least maxModelLen 131072" in str(read_spec(colocated(engine=off))[1])
    on = {"maxModelLen": 131072, "chunkedPrefill": {"enabled": True, "maxBatchedTokens": 8192}}
    assert value(args(colocated(engine=on)), "--max-num-batched-tokens") == "8192"


def test_late_demotion_is_a_flag_of_every_worker_and_off_by_default() -> None:
    """Of decode workers too: a worker may change its role, and its gate holds no prompt computed elsewhere."""
    on = {"engine": {"lateDemotion": True}}
    assert "--late-demotion" in args(colocated(**on))
    assert "--late-demotion" in args(spec(**on), "prefill")
    assert "--late-demotion" in args(spec(**on), "decode")
    assert "--late-demotion" not in args(colocated())
