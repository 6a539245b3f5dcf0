"""What fits on a GPU: weights, KV cache, and how many sequences that leaves. Pure standard library,
so that the worker's preflight can use it inside any engine image.

    architecture.py   the shape of a model, read from a Hugging Face config.json;  models.py: those of common models
    memory.py         bytes of weights, KV cache and activations; the verdict "fits" with its arithmetic
    gpus.py           data sheets
    placement.py      which GPU, and how many of them, hold a number of users
    roofline.py       what no worker can exceed
    spec.py           what an InferenceService asks of one worker (imported by itself: it needs the API's models)
"""

from tandem_api.sizing.architecture import Architecture, Latent, UnknownArchitecture
from tandem_api.sizing.gpus import GPUS, Gpu, gpu_named
from tandem_api.sizing.memory import (
    DEFAULT_UTILIZATION,
    MemoryFit,
    activation_bytes,
    fit,
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    kv_cache_bytes,
    weight_bytes,
)
from tandem_api.sizing.models import MODELS, Model, model_named
from tandem_api.sizing.placement import Demand, Placement, place, smallest
from tandem_api.sizing.roofline import Ceilings, ceilings

__all__ = [
    "DEFAULT_UTILIZATION",
    "GPUS",
    "MODELS",
    "Architecture",
    "Ceilings",
    "Demand",
    "Gpu",
    "Latent",
    "MemoryFit",
    "Model",
    "Placement",
    "UnknownArchitecture",
    "activation_bytes",
    "ceilings",
    "fit",
    "gpu_named",
    "kv_bytes_per_sequence",
    "kv_bytes_per_token",
    "kv_cache_bytes",
    "model_named",
    "place",
    "smallest",
    "weight_bytes",
]
