"""engine.type sglang: command line, pod, router and template hash. Flags as of SGLang 0.5.23, sglang-router 0.3.2."""

from typing import Any

import pytest

from tandem_operator.build.images import Images
from tandem_operator.build.router_deployment import is_told, router_args, router_deployment
from tandem_operator.build.template_hash import template_hash
from tandem_operator.build.worker_pod import worker_pods
from tandem_operator.observe.spec import read_spec
from tests.operator.fleet import Fleet, colocated, spec
from tests.operator.rendered import args, typed, value

SGLANG = {"type": "sglang"}
OWNER = {"apiVersion": "v1", "kind": "x", "name": "x", "uid": "u"}


def pod(wish: dict[str, Any], role: str = "workers") -> dict[str, Any]:
    (made,) = worker_pods(
        namespace="ns",
        service="chat",
        spec=typed(wish),
        role_name=role,
        ordinal=0,
        owner=OWNER,
        images=Images(),
    )
    return made


def test_it_serves_the_model_where_the_router_looks_for_it_and_tells_its_metrics() -> None:
    words = args(colocated(engine=SGLANG))
    assert value(words, "--model-path") == "meta-llama/Llama-3.1-8B-Instruct"
    assert value(words, "--served-model-name") == "chat"
    assert value(words, "--host") == "0.0.0.0", "its own default is 127.0.0.1"
    assert value(words, "--port") == "8000", "its own default is 30000"
    assert "--enable-metrics" in words, "off by default"
    assert not [word for word in words if "shutdown-timeout" in word or "kv-transfer" in word]


def test_every_setting_has_its_flag() -> None:
    engine = {
        **SGLANG, "maxModelLen": 16384, "chunkedPrefill": {"maxBatchedTokens": 4096}, "maxSequences": 128,
        "quantization": "fp8", "kvCacheDtype": "fp8", "blockSize": 64, "gpuMemoryPercent": 85, "prefixCaching": False,
        "extraArgs": ["--schedule-policy", "lpm"],
    }  # fmt: skip
    words = args(colocated(engine=engine, model={"uri": "hf://a/b", "revision": "v2"}, workers={"gpus": 4}))
    for flag, expected in {
        "--context-length": "16384", "--chunked-prefill-size": "4096", "--max-running-requests": "128",
        "--quantization": "fp8", "--kv-cache-dtype": "fp8_e4m3", "--page-size": "64", "--mem-fraction-static": "0.85",
        "--tp-size": "4", "--revision": "v2", "--schedule-policy": "lpm",
    }.items():  # fmt: skip
        assert value(words, flag) == expected
    assert "--disable-radix-cache" in words


def test_copies_and_stages_share_the_gpus() -> None:
    words = args(colocated(engine=SGLANG, workers={"gpus": 8, "dataParallel": 2, "pipelineParallel": 2}))
    assert [value(words, flag) for flag in ("--tp-size", "--pp-size", "--dp-size")] == ["2", "2", "2"]


def test_chunked_prefill_off_is_minus_one_and_its_budget_another_flag() -> None:
    words = args(
        colocated(engine={**SGLANG, "chunkedPrefill": {"enabled": False, "maxBatchedTokens": 32768}})
    )
    assert value(words, "--chunked-prefill-size") == "-1"
    assert value(words, "--max-prefill-tokens") == "32768"


@pytest.mark.parametrize(
    ("speculative", "expected"),
    [
        (
            {"method": "ngram", "tokens": 5},
            ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "5"],
        ),
        (
            {"method": "eagle3", "model": "a/head", "tokens": 3},
            [
                "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "a/head",
                "--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4",
            ],
        ),
        (
            {"method": "mtp", "tokens": 1},
            [
                "--speculative-algorithm", "NEXTN", "--speculative-num-steps", "1", "--speculative-eagle-topk", "1",
                "--speculative-num-draft-tokens", "2",
            ],
        ),
    ],
)  # fmt: skip
def test_speculative_decoding(speculative: dict[str, Any], expected: list[str]) -> None:
    words = args(colocated(engine={**SGLANG, "speculative": speculative}))
    assert words[words.index("--speculative-algorithm") :] == expected


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_role_is_told_which_it_is(role: str) -> None:
    words = args(spec(engine=SGLANG), role)
    assert value(words, "--disaggregation-mode") == role
    assert value(words, "--disaggregation-transfer-backend") == "nixl"
    assert value(words, "--disaggregation-bootstrap-port") == "8998"
    assert "--disaggregation-mode" not in args(colocated(engine=SGLANG))


def test_the_router_finds_the_bootstrap_port_on_prefill_pods_alone() -> None:
    annotations = [
        pod(spec(engine=SGLANG), role)["metadata"].get("annotations", {}) for role in ("prefill", "decode")
    ]
    assert [found.get("sglang.ai/bootstrap-port") for found in annotations] == ["8998", None]
    assert "annotations" not in pod(colocated(engine=SGLANG))["metadata"]


def test_the_pod_tells_its_own_address_and_none_of_vllms_variables() -> None:
    (engine,) = pod(spec(engine=SGLANG), "decode")["spec"]["containers"]
    env = {entry["name"]: entry for entry in engine["env"]}
    assert env["SGLANG_HOST_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert not [name for name in env if name.startswith("VLLM")]
    (alone,) = pod(colocated(engine=SGLANG))["spec"]["containers"]
    assert alone["env"] == []


def test_probes_ask_what_costs_no_token() -> None:
    """/health computes one, behind whatever prompt is long (sglang#22511)."""
    (engine,) = pod(colocated(engine=SGLANG))["spec"]["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert engine[probe]["httpGet"]["path"].partition("?")[0] == "/ready"
    (vllm,) = pod(colocated())["spec"]["containers"]
    assert vllm["livenessProbe"]["httpGet"]["path"] == "/health"


def test_its_image_has_no_entry_point_so_the_pod_has_a_command_that_becomes_the_engine() -> None:
    (engine,) = pod(colocated(engine=SGLANG))["spec"]["containers"]
    assert engine["image"] == Images().sglang_worker
    assert engine["command"][:2] == ["sh", "-c"]
    script = engine["command"][2]
    assert "exec tandem-worker --engine=sglang" in script
    assert "exec python3 -m sglang.launch_server" in script
    (vllm,) = pod(colocated())["spec"]["containers"]
    assert "command" not in vllm


def test_a_worker_cannot_change_its_role_so_the_roles_have_two_hashes() -> None:
    read = typed(spec(engine=SGLANG))
    prefill, decode = (template_hash("chat", read, read.roles[role]) for role in ("prefill", "decode"))
    assert prefill != decode
    fleet = Fleet(spec(engine=SGLANG, gpuBudget=4))
    fleet.settle()
    fleet.scale("prefill", 3)
    fleet.settle()
    fleet.log.clear()
    fleet.scale("prefill", 1)
    fleet.scale("decode", 3)
    fleet.settle(seconds=5.0)
    assert fleet.counts() == {"prefill": 1, "decode": 3}
    assert not [action for action in fleet.log if type(action).__name__ == "Flip"]


def test_colocated_sglang_has_vllm_router_with_another_health_path() -> None:
    words = router_args(namespace="ns", service="chat", spec=typed(colocated(engine=SGLANG)))
    assert value(words, "--health-check-endpoint") == "/ready"
    assert "--pd-disaggregation" not in words
    assert not is_told(typed(colocated(engine=SGLANG)))
    assert "--health-check-endpoint" not in router_args(namespace="ns", service="chat", spec=typed(spec()))


def test_disaggregated_sglang_has_the_router_that_speaks_its_hand_over() -> None:
    read = typed(spec(engine=SGLANG))
    made = router_deployment(namespace="ns", service="chat", spec=read, owner=OWNER, images=Images())
    (router,) = made["spec"]["template"]["spec"]["containers"]
    assert router["command"] == ["python3", "-m", "sglang_router.launch_router"]
    assert "--pd-disaggregation" in router["args"]
    assert not [word for word in router["args"] if "vllm" in word or "kv-connector" in word]
    assert "tandem.dev/role=prefill" in router["args"]
    assert is_told(read)
    made = router_deployment(namespace="ns", service="chat", spec=typed(spec()), owner=OWNER, images=Images())
    assert "command" not in made["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (
            colocated(engine={**SGLANG, "extraArgs": ["--tp-size=2"]}),
            "contains --tp-size, which Tandem sets itself",
        ),
        (
            colocated(engine={**SGLANG, "extraArgs": ["--mem_fraction_static", "0.8"]}),
            "--mem-fraction-static",
        ),
        (spec(engine={**SGLANG, "extraArgs": ["--disaggregation-mode", "null"]}), "--disaggregation-mode"),
        (
            colocated(engine=SGLANG, workers={"nodes": 2, "gpus": 8}),
            "runs on one node per worker; set nodes: 1",
        ),
        (colocated(engine={**SGLANG, "lateDemotion": True}), "is for engine.type vllm"),
        (colocated(engine={**SGLANG, "chunkedPrefill": {"longPromptThreshold": 9}}), "set a smaller"),
        (spec(engine=SGLANG, router={"policy": "consistent_hash"}), "choose cache_aware"),
    ],
)
def test_what_it_cannot_do_is_refused_with_a_sentence(wish: dict[str, Any], words: str) -> None:
    read, sentence = read_spec(wish)
    assert read is None
    assert words in str(sentence)
