"""SGLang's command line in vLLM's words, for the parts of the worker that ask what the engine was told.

Only read: the engine itself gets the words as they were given. Flags as of SGLang 0.5.23
(`sglang/srt/arg_groups/fields`).
"""

from dataclasses import dataclass

from tandem_worker.engine_flags import EngineFlags
from tandem_worker.exits import UserMistake

_NAMES = {
    "model": "model", "model-path": "model", "served-model-name": "served-model-name", "host": "host", "port": "port",
    "dtype": "dtype", "load-format": "load-format", "quantization": "quantization", "kv-cache-dtype": "kv-cache-dtype",
    "revision": "revision", "context-length": "max-model-len", "max-running-requests": "max-num-seqs",
    "max-queued-requests": "max-num-queued-reqs", "page-size": "block-size",
    "tp-size": "tensor-parallel-size", "tensor-parallel-size": "tensor-parallel-size", "tp": "tensor-parallel-size",
    "pp-size": "pipeline-parallel-size", "pipeline-parallel-size": "pipeline-parallel-size",
    "dp-size": "data-parallel-size", "data-parallel-size": "data-parallel-size",
    "mem-fraction-static": "gpu-memory-utilization",
}  # fmt: skip
DEFAULT_PORT = "30000"
# Of --max-prefill-tokens; the longest prompt fits in any case.
DEFAULT_PREFILL_TOKENS = 16384
DEFAULT_BOOTSTRAP_PORT = 8998


@dataclass(frozen=True)
class Disaggregation:
    """The engine's part in a hand-over of KV: "prefill" or "decode"."""

    phase: str
    bootstrap_port: int


def as_vllm(flags: EngineFlags) -> EngineFlags:
    """The same wishes; what vLLM has no word for is left out.

    Raises:
        UserMistake: a value is no number.
    """
    values = {_NAMES[name]: value for name, value in flags.values.items() if name in _NAMES}
    values.setdefault("port", DEFAULT_PORT)
    values.setdefault("host", "127.0.0.1")
    chunk = flags.integer("chunked-prefill-size")
    if chunk is not None and chunk < 0:
        values["no-enable-chunked-prefill"] = ""
        longest = flags.integer("context-length", 0) or 0
        budget = flags.integer("max-prefill-tokens", DEFAULT_PREFILL_TOKENS) or DEFAULT_PREFILL_TOKENS
        values["max-num-batched-tokens"] = str(max(budget, longest))
    elif chunk is not None:
        values["max-num-batched-tokens"] = str(chunk)
    return EngineFlags(flags.argv, flags.model or values.get("model") or None, values)


def disaggregation(flags: EngineFlags) -> Disaggregation | None:
    """None for an engine that does both.

    Raises:
        UserMistake: the mode or the port is none.
    """
    mode = flags.text("disaggregation-mode", "null")
    if mode == "null":
        return None
    if mode not in ("prefill", "decode"):
        raise UserMistake(f"--disaggregation-mode: {mode!r} is none of null, prefill and decode")
    port = flags.integer("disaggregation-bootstrap-port", DEFAULT_BOOTSTRAP_PORT) or DEFAULT_BOOTSTRAP_PORT
    if not 0 < port < 65536:
        raise UserMistake(f"--disaggregation-bootstrap-port: {port} is no port")
    return Disaggregation(mode, port)
