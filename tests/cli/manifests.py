"""Manifests as users write them."""

from pathlib import Path
from typing import Any

import yaml

LLAMA_8B = "hf://meta-llama/Llama-3.1-8B-Instruct"
H100 = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}


def chat(**spec: Any) -> dict[str, Any]:
    """A small disaggregated service on H100; `spec` replaces whole fields, None removes one."""
    usual: dict[str, Any] = {
        "mode": "Disaggregated",
        "model": {"uri": LLAMA_8B},
        "slo": {"ttft": "1s", "tpot": "40ms"},
        "prefill": {"minReplicas": 1, "maxReplicas": 6, "template": H100},
        "decode": {"minReplicas": 1, "maxReplicas": 8, "template": H100},
    }
    wanted = {name: value for name, value in {**usual, **spec}.items() if value is not None}
    return {
        "apiVersion": "tandem.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat"},
        "spec": wanted,
    }


def written(folder: Path, *manifests: Any) -> str:
    """The path of a file with these documents."""
    path = folder / "chat.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)
