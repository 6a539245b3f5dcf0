"""One room per engine: what it is called with, how it is asked for its health, and what hands KV over.

engine.py   `Engine` (the port) and what all engines are told alike
vllm.py     vLLM
sglang.py   SGLang

Everything else of `build/` and `plan/` does not know which engine it is, save by asking `engine_of`.
"""

from tandem_api.inference_service import InferenceServiceSpec
from tandem_operator.build.engines.engine import Engine
from tandem_operator.build.engines.sglang import SGLang
from tandem_operator.build.engines.vllm import VLLM

_ENGINES: dict[str, Engine] = {"vllm": VLLM(), "sglang": SGLang()}


def engine_of(spec: InferenceServiceSpec) -> Engine:
    """The engine that the service asks for."""
    return _ENGINES[spec.engine.type]


__all__ = ["Engine", "engine_of"]
