"""What the benchmark stands on: vLLM for CPUs in an environment of its own, and a model without a download.

Both lie in Tandem's cache: `engine-venv` is made as the worker image is (e2e/images/vllm-cpu), `models/` by the same
script as the image's model. Each is made anew when what it is made from has changed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.cluster import prerequisites
from e2e.cluster.cache import cache_dir, content_key, only_one
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import step
from e2e.images.build import uv
from e2e.images.recipes import ROOT

_RECIPE = ROOT / "e2e" / "images" / "vllm-cpu"
_REQUIREMENTS = ROOT / "worker_image" / "requirements-vllm-cpu.txt"
_BUILD_TOOLS = {"gcc": "gcc", "readelf": "binutils", "nm": "binutils", "taskset": "util-linux"}

# Large enough that matrix products and not the launching of layers take the time: the tiny model of the image shows
# no effect of chunking at all (its time is attention), and smaller steps cost it five times as much.
_SIZES = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 8, "num_attention_heads": 12,
    "num_key_value_heads": 4, "head_dim": 64,
}  # fmt: skip


def engine_python() -> Path:
    """The interpreter that has vLLM. Raises ClusterError."""
    folder = cache_dir() / "engine-venv"
    python = folder / "bin" / "python"
    scripts = [_RECIPE / "absent_cuda.py", _RECIPE / "fast_start.py"]
    key = content_key(files=[_REQUIREMENTS, *scripts], text=sys.version)
    with only_one("engine-venv"):
        if _read(folder / ".key") == key:
            return python
        prerequisites.install(_BUILD_TOOLS)
        with step("vLLM for CPUs in an environment of its own (3 GB)"):
            shutil.rmtree(folder, ignore_errors=True)
            _run(str(uv()), "venv", "--quiet", "--python", sys.executable, str(folder))
            # Copies: fast_start.py changes files, and a hard link would change them in uv's cache as well.
            _run(
                str(uv()), "pip", "install", "--quiet", "--python", str(python), "--no-deps", "--link-mode", "copy",
                "--compile-bytecode", "-r", str(_REQUIREMENTS),
            )  # fmt: skip
            packages = next(folder.glob("lib/python3.*/site-packages"))
            for script in scripts:
                _run(str(python), str(script), str(packages))
        (folder / ".key").write_text(key)
    return python


def tiny_model(python: Path) -> Path:
    """The model of the worker image."""
    return _model(python, "tiny-llama", {})


def bench_model(python: Path) -> Path:
    """About 70 million parameters in float32: a prompt of 3,500 tokens takes seconds on two cores."""
    return _model(python, "bench-llama", _SIZES)


def has_fp8_kv() -> bool:
    """Can vLLM's CPU attention read a KV cache in fp8? It wants AVX-512 (v1/attention/backends/cpu_attn.py, 0.32)."""
    return "avx512f" in (_read(Path("/proc/cpuinfo")) or "").split()


def _model(python: Path, name: str, sizes: dict[str, int]) -> Path:
    folder = cache_dir() / "models" / name
    script = _RECIPE / "tiny_llama.py"
    key = content_key(files=[script], text=json.dumps(sizes))
    if _read(folder / ".key") != key:
        _run(str(python), str(script), str(folder))
        config = folder / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **sizes}, indent=1))
        (folder / ".key").write_text(key)
    return folder


def _read(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None


def _run(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "UV_NATIVE_TLS": "1"}, cwd="/"
    )
    if done.returncode != 0:
        tail = "\n".join(f"    {line[:300]}" for line in done.stderr.splitlines()[-10:])
        raise ClusterError(f"{Path(command[0]).name} {' '.join(command[1:3])} failed:\n{tail}")
