"""The API server itself refuses what cannot work, in words that the user understands (CEL, no webhook)."""

import copy
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
Apply = Callable[[dict[str, Any]], subprocess.CompletedProcess[str]]

GOOD: dict[str, Any] = {
    "apiVersion": "tandem.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "chat", "namespace": "default"},
    "spec": {
        "mode": "Disaggregated",
        "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "name": "llama-8b"},
        "engine": {"maxModelLen": 16384, "chunkedPrefill": {"maxBatchedTokens": 2048}},
        "slo": {"ttft": "1s", "tpot": "40ms", "percentile": 95},
        "prefill": {"minReplicas": 1, "maxReplicas": 6},
        "decode": {"minReplicas": 1, "maxReplicas": 8},
    },
}


def changed(*path: str, to: Any) -> dict[str, Any]:
    """GOOD with one value changed; `to=...` (Ellipsis) removes it."""
    manifest = copy.deepcopy(GOOD)
    node = manifest
    for key in path[:-1]:
        node = node.setdefault(key, {})
    if to is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = to
    return manifest


def pooled(**spec: Any) -> dict[str, Any]:
    """A Colocated service whose gateway leads to an InferencePool."""
    gateway = {"parents": [{"name": "public"}], "inferencePool": {"endpointPicker": {"name": "chat-epp"}}}
    colocated = {key: GOOD["spec"][key] for key in ("model", "slo")}
    return changed("spec", to={**colocated, "router": {"gateway": gateway}, **spec})


def test_a_good_manifest_is_accepted(kubectl_apply: Apply) -> None:
    answer = kubectl_apply(GOOD)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    "manifest",
    [
        changed("spec", "engine", "extraArgs", to=["--enable-sleep-mode", "--seed=7"]),
        changed("spec", "gpuBudget", to=0),
        changed("spec", "prefill", "minReplicas", to=0),
        changed("spec", "prefill", "template", to={"spec": {"nodeSelector": {"gpu": "h100"}}}),
        changed("spec", "model", "uri", to="pvc://weights/llama"),
        changed("spec", "prefill", to={"gpus": 8, "nodes": 2, "pipelineParallel": 1}),
        changed("spec", "engine", "chunkedPrefill", to={"enabled": False, "maxBatchedTokens": 16384}),
        pooled(),
        pooled(workers={"minReplicas": 0}, autoscaling={"mode": "External"}),
    ],
)  # fmt: skip
def test_other_good_manifests_are_accepted(kubectl_apply: Apply, manifest: dict[str, Any]) -> None:
    answer = kubectl_apply(manifest)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (changed("spec", "decode", to=...), "mode Disaggregated needs both spec.prefill and spec.decode"),
        (changed("spec", "workers", to={"maxReplicas": 2}), "mode Disaggregated has the pools spec.prefill"),
        (changed("spec", "mode", to="Colocated"), "mode Colocated has the one pool spec.workers"),
        (changed("spec", "mode", to="colocated"), 'supported values: "Colocated", "Disaggregated"'),
        (changed("spec", "prefill", "minReplicas", to=7), "minReplicas must not exceed maxReplicas"),
        (changed("spec", "prefill", "minReplicas", to=-1), "should be greater than or equal to 0"),
        (changed("spec", "decode", "gpus", to=1.5), "must be of type integer"),
        (changed("spec", "decode", "gpus", to="1"), "must be of type integer"),
        (changed("spec", "decode", "replicas", to=3), "replicas is for autoscaling.mode Off"),
        (changed("spec", "slo", to=...), "set spec.slo.ttft and spec.slo.tpot"),
        (changed("spec", "slo", "ttft", to="fast"), "spec.slo.ttft"),
        (changed("spec", "slo", "ttft", to=1), "must be of type string"),
        (changed("spec", "slo", "percentile", to=100), "should be less than or equal to 99"),
        (changed("spec", "model", "uri", to="meta-llama/Llama"), "model.uri must be hf://"),
        (changed("spec", "model", "uri", to="hf://only-one-part"), "model.uri must be hf://"),
        (changed("spec", "model", "uri", to=...), "spec.model.uri: Required value"),
        (changed("spec", "engine", "type", to="tgi"), 'supported values: "vllm", "sglang"'),
        (
            changed("spec", "engine", "extraArgs", to=["--port=9000"]),
            "contains a flag that Tandem sets itself",
        ),
        (changed("spec", "engine", "extraArgs", to=["--served_model_name", "x"]), "a flag that Tandem sets"),
        (
            changed("spec", "prefill", "engine", to={"extraArgs": ["--max-num-seqs=4"]}),
            "use that field instead",
        ),
        (changed("spec", "engine", "extraArgs", to=["--node-rank=1"]), "a flag that Tandem sets itself"),
        (changed("spec", "engine", "extraArgs", to=["-tp", "4"]), "a flag that Tandem sets itself"),
        (
            changed("spec", "prefill", to={"gpus": 8, "nodes": 2, "pipelineParallel": 3}),
            "pipelineParallel must divide nodes x gpus",
        ),
        (changed("spec", "decode", to={"gpus": 8, "nodes": 2}), "set decode.pipelineParallel: 1"),
        (changed("spec", "decode", "nodes", to=0), "should be greater than or equal to 1"),
        (changed("spec", "engine", "chunkedPrefill", "longPromptThreshold", to=4096), "must not exceed"),
        (
            changed("spec", "engine", "chunkedPrefill", to={"enabled": False, "maxBatchedTokens": 8192}),
            "must be at least maxModelLen",
        ),
        (
            changed("spec", "prefill", "engine", to={"maxModelLen": 1}),
            'unknown field "spec.prefill.engine.maxModelLen"',
        ),
        (changed("spec", "prefil", to={}), 'unknown field "spec.prefil"'),
        (
            changed("spec", "router", to=pooled()["spec"]["router"]),
            "inferencePool is for mode Colocated: only the router pairs prefill and decode workers",
        ),
        (pooled(workers={"minReplicas": 0}), "set workers.minReplicas to 1 or more"),
        (
            pooled(router={"gateway": {"parents": [{"name": "public"}], "inferencePool": {}}}),
            "inferencePool.endpointPicker: Required value",
        ),
        (changed("metadata", "name", to="a" * 49), "may have at most 48 characters"),
        (changed("metadata", "name", to="1chat"), "must start with a letter"),
        (changed("metadata", "name", to="chat.v2"), "must start with a letter"),
    ],
)
def test_a_bad_manifest_is_refused(kubectl_apply: Apply, manifest: dict[str, Any], sentence: str) -> None:
    if manifest["metadata"]["name"] == "chat":
        # A name of its own: what a user meets first is a create, not a patch of what is there.
        manifest = {**manifest, "metadata": {**manifest["metadata"], "name": f"bad-{uuid.uuid4().hex[:8]}"}}
    answer = kubectl_apply(manifest)
    assert answer.returncode != 0
    assert sentence in answer.stderr
    assert len(answer.stderr) < 2000, "one fault, one sentence: not a page"


def test_defaults_are_filled_in_by_the_server(kubectl_apply: Apply, kubectl: Any) -> None:
    manifest = {**GOOD, "metadata": {"name": "defaults", "namespace": "default"}}
    assert kubectl_apply(manifest).returncode == 0
    spec = yaml.safe_load(kubectl("get", "infsvc", "defaults", "-o", "yaml").stdout)["spec"]
    assert spec["autoscaling"]["mode"] == "Auto"
    assert spec["drain"]["deadline"] == "300s"
    assert spec["router"] == {"policy": "power_of_two", "replicas": 1}
    assert spec["prefill"]["gpus"] == 1


def test_both_kinds_are_found_by_short_name_and_category(kubectl: Any) -> None:
    for name in ("infsvc", "wpool", "tandem"):
        answer = kubectl("get", name)
        assert answer.returncode == 0, answer.stderr


def test_a_pool_is_scaled_through_its_scale_subresource(kubectl_apply: Apply, kubectl: Any) -> None:
    pool = {
        "apiVersion": "tandem.dev/v1alpha1",
        "kind": "WorkerPool",
        "metadata": {"name": "chat-decode", "namespace": "default"},
        "spec": {"service": "chat", "role": "decode", "replicas": 1},
    }
    assert kubectl_apply(pool).returncode == 0
    assert kubectl("scale", "wpool/chat-decode", "--replicas=0").returncode == 0
    assert kubectl("get", "wpool", "chat-decode", "-o", "jsonpath={.spec.replicas}").stdout == "0"
