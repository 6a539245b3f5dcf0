"""Field cases E3, E4, E5, E7, E12, E13 and SGLang's limits, refused by the API server itself, in words that say what to
do."""

import copy
import subprocess
import uuid
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.integration

Apply = Callable[[dict[str, Any]], subprocess.CompletedProcess[str]]


def service(**spec: Any) -> dict[str, Any]:
    """A Disaggregated service with fields of its spec replaced; None removes one."""
    wish: dict[str, Any] = {
        "mode": "Disaggregated",
        "model": {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct"},
        "slo": {"ttft": "1s", "tpot": "40ms"},
        "prefill": {"maxReplicas": 2},
        "decode": {"maxReplicas": 2},
    }
    wish = {key: copy.deepcopy(value) for key, value in {**wish, **spec}.items() if value is not None}
    return {
        "apiVersion": "tandem.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": f"s{uuid.uuid4().hex[:8]}", "namespace": "default"},
        "spec": wish,
    }


def colocated(**spec: Any) -> dict[str, Any]:
    return service(mode="Colocated", prefill=None, decode=None, **spec)


OFF = {"enabled": False}


@pytest.mark.parametrize(
    "manifest",
    [
        service(
            engine={"blockSize": 32, "gpuMemoryPercent": 90, "speculative": {"method": "ngram", "tokens": 4}}
        ),
        service(decode={"engine": {"speculative": {"method": "ngram"}, "gpuMemoryPercent": 95}}),
        service(model={"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "revision": "main"}),
        colocated(workers={"gpus": 8, "tensorParallel": 4, "dataParallel": 2}),
        colocated(workers={"gpus": 8, "nodes": 2, "tensorParallel": 16}),
        colocated(workers={"gpus": 8, "nodes": 2, "tensorParallel": 8, "pipelineParallel": 2}),
        service(decode={"gpus": 8, "nodes": 2, "tensorParallel": 16}),
        colocated(workers={"gpus": 2, "gpuResource": "nvidia.com/mig-3g.40gb", "shmSize": "20Gi"}),
        colocated(workers={"gpus": 2, "gpuResource": "amd.com/gpu"}),
        service(engine={"type": "sglang", "chunkedPrefill": {"maxBatchedTokens": 8192}}),
        colocated(engine={"type": "sglang"}, router={"policy": "consistent_hash"}),
        service(
            engine={"maxModelLen": 8192, "chunkedPrefill": {"maxBatchedTokens": 2048}},
            decode={"engine": {"chunkedPrefill": {**OFF, "maxBatchedTokens": 8192}}},
        ),
        service(
            engine={"maxModelLen": 8192, "chunkedPrefill": OFF},
            decode={"engine": {"chunkedPrefill": {"maxBatchedTokens": 512}}},
        ),
    ],
)
def test_what_works_is_accepted(kubectl_apply: Apply, manifest: dict[str, Any]) -> None:
    answer = kubectl_apply(manifest)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        # E3
        (service(engine={"extraArgs": ["--block_size=32"]}), "a flag that Tandem sets itself"),
        (service(engine={"extraArgs": ["--revision", "x"]}), "a flag that Tandem sets itself"),
        (service(engine={"extraArgs": ["-q", "fp8"]}), "a flag that Tandem sets itself"),
        # E4, also in a role's override and with the service's budget
        (
            service(
                engine={"maxModelLen": 8192},
                prefill={"engine": {"chunkedPrefill": {**OFF, "maxBatchedTokens": 4096}}},
            ),
            "with chunked prefill off in prefill.engine, maxBatchedTokens must be at least engine.maxModelLen",
        ),
        (
            service(
                engine={"maxModelLen": 8192, "chunkedPrefill": {"maxBatchedTokens": 2048}},
                decode={"engine": {"chunkedPrefill": OFF}},
            ),
            "with chunked prefill off in decode.engine, maxBatchedTokens must be at least engine.maxModelLen",
        ),
        # E5: what both roles must agree on is no field of a role
        (service(decode={"engine": {"maxModelLen": 1}}), 'unknown field "spec.decode.engine.maxModelLen"'),
        (
            service(decode={"engine": {"kvCacheDtype": "fp8"}}),
            'unknown field "spec.decode.engine.kvCacheDtype"',
        ),
        (service(decode={"engine": {"blockSize": 16}}), 'unknown field "spec.decode.engine.blockSize"'),
        (service(decode={"revision": "x"}), 'unknown field "spec.decode.revision"'),
        (service(decode={"engine": {"type": "sglang"}}), 'unknown field "spec.decode.engine.type"'),
        # E7 and E12: tensor parallelism against GPUs
        (colocated(workers={"gpus": 4, "tensorParallel": 2}), "so that every GPU is used"),
        (colocated(workers={"gpus": 1, "tensorParallel": 2}), "so that every GPU is used"),
        (colocated(workers={"gpus": 8, "tensorParallel": 16}), "nodes: 2, gpus: 8"),
        (colocated(workers={"gpus": 4, "nodes": 2, "tensorParallel": 6}), "so that every GPU is used"),
        (colocated(workers={"gpus": 8, "dataParallel": 3}), "dataParallel must divide nodes x gpus"),
        (colocated(workers={"gpus": 8, "nodes": 2, "dataParallel": 2}), "does not go with nodes above 1"),
        # E8 and E13
        (colocated(workers={"shmSize": "lots"}), "spec.workers.shmSize"),
        (colocated(workers={"gpus": 1.5}), "must be of type integer"),
        (colocated(workers={"gpus": "1.5"}), "must be of type integer"),
        # speculative decoding and revisions
        (colocated(engine={"speculative": {"method": "eagle3"}}), "speculative.model is needed by"),
        (colocated(engine={"speculative": {"method": "ngram", "model": "x"}}), "and by no other"),
        (
            colocated(model={"uri": "pvc://weights/llama", "revision": "main"}),
            "model.revision is of a Hugging Face model",
        ),
        # SGLang
        (
            colocated(engine={"type": "sglang", "lateDemotion": True}),
            "engine.lateDemotion is for engine.type vllm",
        ),
        (
            colocated(engine={"type": "sglang", "chunkedPrefill": {"longPromptThreshold": 512}}),
            "SGLang has no chunkedPrefill.longPromptThreshold",
        ),
        (
            service(
                engine={"type": "sglang"},
                prefill={"engine": {"chunkedPrefill": {"longPromptThreshold": 512}}},
            ),
            "prefill: engine.type sglang runs on one node per worker and has no",
        ),
        (
            colocated(engine={"type": "sglang"}, workers={"nodes": 2}),
            "workers: engine.type sglang runs on one node per worker",
        ),
        (
            service(engine={"type": "sglang"}, router={"policy": "consistent_hash"}),
            "has no policy consistent_hash",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(
    kubectl_apply: Apply, manifest: dict[str, Any], sentence: str
) -> None:
    answer = kubectl_apply(manifest)
    assert answer.returncode != 0
    assert sentence in answer.stderr, answer.stderr
    assert len(answer.stderr) < 2000, "one fault, one sentence: not a page"
