"""CRDs of others, as their projects published them: out of the Go modules' cache, each at a pinned version."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

_GATEWAY_API = "sigs.k8s.io/gateway-api@v1.3.0"
_INFERENCE_EXTENSION = "sigs.k8s.io/gateway-api-inference-extension@v1.3.0"


def http_route_crd() -> Path:
    return _module(_GATEWAY_API) / "config" / "crd" / "standard" / "gateway.networking.k8s.io_httproutes.yaml"


def inference_pool_crd() -> Path:
    folder = _module(_INFERENCE_EXTENSION) / "config" / "crd" / "bases"
    return folder / "inference.networking.k8s.io_inferencepools.yaml"


def _module(module: str) -> Path:
    """Its folder; skips the test, loudly, where it cannot be had."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    try:
        done = subprocess.run(
            [go, "mod", "download", "-json", module], capture_output=True, text=True, timeout=120
        )
        return Path(json.loads(done.stdout)["Dir"])
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"NOT TESTED: {module} cannot be had: {error}")
