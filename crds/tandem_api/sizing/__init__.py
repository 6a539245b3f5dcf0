"""What fits on a GPU: weights, KV cache, and how many sequences that leaves. Pure standard library,
so that the worker's preflight can use it inside any engine image.

    architecture.py   the shape of a model, read from a Hugging Face config.json
    memory.py         bytes of weights and of the KV cache; the verdict "fits" with its arithmetic
"""

from tandem_api.sizing.architecture import Architecture, UnknownArchitecture
from tandem_api.sizing.memory import MemoryFit, fit, kv_bytes_per_token, kv_cache_bytes, weight_bytes

__all__ = [
    "Architecture",
    "MemoryFit",
    "UnknownArchitecture",
    "fit",
    "kv_bytes_per_token",
    "kv_cache_bytes",
    "weight_bytes",
]
