"""Does the model fit this device? Answered from arithmetic before the engine spends minutes finding out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem_api.sizing import Architecture, MemoryFit, UnknownArchitecture, fit
from tandem_worker.device_memory import DeviceMemory, device_memory
from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import PreflightRefused, UserMistake
from tandem_worker.model_files import ModelFiles, find_model

# The words of tandem_api.reasons; a test compares.
INSUFFICIENT_KV_CACHE = "InsufficientKVCache"
PREFLIGHT_REFUSED = "PreflightRefused"

# vLLM 0.32's default of --gpu-memory-utilization (vllm/config/cache.py).
DEFAULT_UTILIZATION = 0.92
_WEIGHT_BYTES = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0}


@dataclass(frozen=True)
class Preflight:
    """The arithmetic, or why there is none. A model that is not refused here may start."""

    verdict: MemoryFit | None
    note: str

    def summary(self) -> str:
        """One line for the log."""
        return f"tandem-worker: preflight: {self.note}"


def preflight(flags: EngineFlags, environ: Mapping[str, str]) -> Preflight:
    """Check the model against this machine.

    Raises:
        PreflightRefused: it cannot run here; the message begins with the reason.
        UserMistake: a flag's value is none.
    """
    if flags.model is None:
        return Preflight(None, "skipped, the model is in a config file")
    files = find_model(flags.model, environ)
    if files is None:
        return Preflight(None, "skipped, the model's config is not here yet")
    device = device_memory(environ)
    if device is None:
        return Preflight(None, "skipped, the device's memory is unknown (no torch)")
    return check(flags, files, device)


def check(flags: EngineFlags, files: ModelFiles, device: DeviceMemory) -> Preflight:
    """The same, from given facts (pure).

    Raises PreflightRefused and UserMistake as `preflight`.
    """
    try:
        architecture = Architecture.from_config(files.config)
    except UnknownArchitecture as error:
        return Preflight(None, f"not sized: {error}")
    max_model_len = _max_model_len(flags, architecture)
    if max_model_len is None:
        return Preflight(None, "not sized: the engine chooses the sequence length")
    gpus, nodes = _parallel(flags), flags.integer("nnodes", 1) or 1
    if 0 < device.devices < gpus // nodes:
        raise PreflightRefused(
            PREFLIGHT_REFUSED, f"needs {gpus // nodes} devices, and {device.devices} are here"
        )
    if nodes > 1 and not device.devices:
        return Preflight(None, f"not sized: there is no arithmetic for {nodes} nodes without GPUs")
    dtype, quantization = _dtype(flags, files.config), _quantization(flags, files.config)
    utilization = flags.number("gpu-memory-utilization", DEFAULT_UTILIZATION)
    try:
        verdict = fit(
            architecture,
            memory_bytes=device.bytes_per_device,
            max_model_len=max_model_len,
            gpus=gpus if device.devices else 1,
            utilization=utilization if device.devices else 1.0,
            quantization=quantization,
            kv_dtype=_kv_dtype(flags, dtype),
            bytes_per_weight=_bytes_per_weight(flags, files, architecture, dtype, quantization),
        )
    except KeyError as error:
        return Preflight(None, f"not sized: no arithmetic for {error}")
    if device.devices:
        _refuse_when_too_big(verdict, device, gpus, utilization)
        sequences = verdict.sequences
        budget_bytes = verdict.kv_budget_bytes
    else:
        budget_bytes = _refuse_when_too_big_on_cpu(verdict, device)
        sequences = budget_bytes // verdict.kv_bytes_per_token // max_model_len
    return Preflight(
        verdict,
        f"weights {_gb(verdict.weights_bytes)}, KV cache {_gb(budget_bytes)} of "
        f"{verdict.kv_bytes_per_token} bytes per token: {sequences} sequences of {max_model_len} tokens at once",
    )


def _refuse_when_too_big(verdict: MemoryFit, device: DeviceMemory, gpus: int, utilization: float) -> None:
    if verdict.fits:
        return
    many = f"{gpus} x " if gpus > 1 else ""
    raise PreflightRefused(
        INSUFFICIENT_KV_CACHE,
        f"weights {_gb(verdict.weights_bytes)} + KV for one sequence of {verdict.max_model_len} tokens "
        f"{_gb(verdict.kv_bytes_per_token * verdict.max_model_len)} exceed "
        f"{many}{_gb(device.bytes_per_device)} x {utilization:.2f}",
    )


def _refuse_when_too_big_on_cpu(verdict: MemoryFit, device: DeviceMemory) -> int:
    """Bytes of the KV cache on CPU, where it is set apart by hand and the weights lie beside it."""
    one = verdict.kv_bytes_per_token * verdict.max_model_len
    space = device.kv_space_bytes
    if space is not None and one > space:
        raise PreflightRefused(
            INSUFFICIENT_KV_CACHE,
            f"KV for one sequence of {verdict.max_model_len} tokens {_gb(one)} exceeds "
            f"VLLM_CPU_KVCACHE_SPACE {_gb(space)}",
        )
    cache = one if space is None else space
    if verdict.weights_bytes + cache > device.bytes_per_device:
        raise PreflightRefused(
            INSUFFICIENT_KV_CACHE,
            f"weights {_gb(verdict.weights_bytes)} + KV cache {_gb(cache)} exceed the memory limit "
            f"{_gb(device.bytes_per_device)}",
        )
    return cache if space is not None else device.bytes_per_device - verdict.weights_bytes


def _max_model_len(flags: EngineFlags, architecture: Architecture) -> int | None:
    given = flags.values.get("max-model-len")
    if given is None:
        return architecture.max_position
    if given in ("auto", "-1"):
        return None
    length = flags.integer("max-model-len")
    if length is None or length <= 0:
        raise UserMistake(f"--max-model-len: {given!r} is not a positive number")
    return length


def _parallel(flags: EngineFlags) -> int:
    tensor = flags.integer("tensor-parallel-size", 1) or 1
    pipeline = flags.integer("pipeline-parallel-size", 1) or 1
    return max(1, tensor) * max(1, pipeline)


def _dtype(flags: EngineFlags, config: Mapping[str, Any]) -> str:
    dtype = flags.text("dtype", "auto")
    if dtype != "auto":
        return dtype
    stored = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    # The engine's `auto` loads a float32 checkpoint in half the size.
    return "bfloat16" if stored == "float32" else stored


def _quantization(flags: EngineFlags, config: Mapping[str, Any]) -> str:
    stored = config.get("quantization_config")
    method = flags.text("quantization", "") or (
        str(stored.get("quant_method", "")) if isinstance(stored, dict) else ""
    )
    method = method.removesuffix("_marlin")
    return method if method not in ("", "none", "None") else "none"


def _kv_dtype(flags: EngineFlags, dtype: str) -> str:
    kv_dtype = flags.text("kv-cache-dtype", "auto")
    if kv_dtype.startswith("fp8"):
        return "fp8"
    if kv_dtype == "auto":
        kv_dtype = dtype
    return {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float": "float32"}.get(kv_dtype, kv_dtype)


def _bytes_per_weight(
    flags: EngineFlags, files: ModelFiles, architecture: Architecture, dtype: str, quantization: str
) -> float | None:
    """None leaves it to the quantization's own size."""
    stored = files.config.get("quantization_config")
    loads_as_stored = stored is not None or quantization == "none"
    if (
        files.weight_files_bytes is not None
        and loads_as_stored
        and flags.text("load-format", "auto") != "dummy"
    ):
        on_disk = str(files.config.get("dtype") or files.config.get("torch_dtype") or dtype)
        scale = _WEIGHT_BYTES.get(dtype, 2.0) / _WEIGHT_BYTES.get(on_disk, 2.0) if stored is None else 1.0
        return files.weight_files_bytes * scale / architecture.parameters
    return _WEIGHT_BYTES.get(dtype) if quantization == "none" else None


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"
