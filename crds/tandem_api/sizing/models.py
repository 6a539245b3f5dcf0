"""The shapes of common open models, so that they can be sized without a download. Read from their config.json.

Multimodal models are their language part; the vision tower's weights, a few per cent, are left out.
"""

import difflib
from dataclasses import dataclass, replace
from typing import Final

from tandem_api.sizing.architecture import Architecture, Latent


@dataclass(frozen=True)
class Model:
    """`stored` is the format of the published weights, a key of `memory.BYTES_PER_WEIGHT`."""

    name: str
    architecture: Architecture
    stored: str = "none"


def _dense(
    layers: int, hidden: int, inner: int, heads: int, kv_heads: int, head_dim: int, vocabulary: int, position: int,
    *, tied: bool = False, window: int = 0, window_layers: int = 0,
) -> Architecture:  # fmt: skip
    return Architecture(
        layers, hidden, inner, heads, kv_heads, head_dim, vocabulary, tied, max_position=position,
        window=window, window_layers=window_layers,
    )  # fmt: skip


def _experts(
    base: Architecture, experts: int, chosen: int, inner: int, *, shared: int = 0, dense_layers: int = 0
) -> Architecture:
    return replace(
        base, experts=experts, experts_per_token=chosen, expert_intermediate_size=inner,
        shared_intermediate_size=shared, dense_layers=dense_layers,
    )  # fmt: skip


def _deepseek(heads: int, vocabulary: int, position: int, experts: int, dense_layers: int) -> Architecture:
    """DeepSeek V3's shape, which Kimi K2 shares."""
    base = replace(
        _dense(61, 7168, 18432, heads, heads, 192, vocabulary, position),
        latent=Latent(rank=512, rope_dim=64, query_rank=1536, plain_dim=128, value_dim=128),
    )
    return _experts(base, experts, 8, 2048, shared=2048, dense_layers=dense_layers)


_LLAMA_8B = _dense(32, 4096, 14336, 32, 8, 128, 128256, 131072)
_LLAMA_70B = _dense(80, 8192, 28672, 64, 8, 128, 128256, 131072)
_QWEN25 = {
    "0.5b": _dense(24, 896, 4864, 14, 2, 64, 151936, 32768, tied=True),
    "1.5b": _dense(28, 1536, 8960, 12, 2, 128, 151936, 32768, tied=True),
    "3b": _dense(36, 2048, 11008, 16, 2, 128, 151936, 32768, tied=True),
    "7b": _dense(28, 3584, 18944, 28, 4, 128, 152064, 32768),
    "14b": _dense(48, 5120, 13824, 40, 8, 128, 152064, 32768),
    "32b": _dense(64, 5120, 27648, 40, 8, 128, 152064, 32768),
    "72b": _dense(80, 8192, 29568, 64, 8, 128, 152064, 32768),
}
_QWEN3_2507 = {
    "4b": _dense(36, 2560, 9728, 32, 8, 128, 151936, 40960, tied=True),
    "30b-a3b": _experts(_dense(48, 2048, 6144, 32, 4, 128, 151936, 40960), 128, 8, 768),
    "235b-a22b": _experts(_dense(94, 4096, 12288, 64, 4, 128, 151936, 40960), 128, 8, 1536),
}
# Five of six layers of Gemma 3 look back 1,024 tokens only, every second of Gemma 2 4,096.
_ALL: Final = (
    Model("llama-3-8b", replace(_LLAMA_8B, max_position=8192)),
    Model("llama-3-70b", replace(_LLAMA_70B, max_position=8192)),
    Model("llama-3.1-8b", _LLAMA_8B),
    Model("llama-3.1-70b", _LLAMA_70B),
    Model("llama-3.1-405b", _dense(126, 16384, 53248, 128, 8, 128, 128256, 131072)),
    Model("llama-3.2-1b", _dense(16, 2048, 8192, 32, 8, 64, 128256, 131072, tied=True)),
    Model("llama-3.2-3b", _dense(28, 3072, 8192, 24, 8, 128, 128256, 131072, tied=True)),
    Model("llama-3.3-70b", _LLAMA_70B),
    *(Model(f"qwen2.5-{size}", shape) for size, shape in _QWEN25.items()),
    *(Model(f"qwen2.5-coder-{size}", shape) for size, shape in _QWEN25.items() if size != "72b"),
    Model("qwq-32b", replace(_QWEN25["32b"], max_position=40960)),
    Model("qwen3-0.6b", _dense(28, 1024, 3072, 16, 8, 128, 151936, 40960, tied=True)),
    Model("qwen3-1.7b", _dense(28, 2048, 6144, 16, 8, 128, 151936, 40960, tied=True)),
    *(Model(f"qwen3-{size}", shape) for size, shape in _QWEN3_2507.items()),
    Model("qwen3-8b", _dense(36, 4096, 12288, 32, 8, 128, 151936, 40960)),
    Model("qwen3-14b", _dense(40, 5120, 17408, 40, 8, 128, 151936, 40960)),
    Model("qwen3-32b", _dense(64, 5120, 25600, 64, 8, 128, 151936, 40960)),
    Model(
        "qwen3-coder-480b-a35b",
        _experts(_dense(62, 6144, 8192, 96, 8, 128, 151936, 262144), 160, 8, 2560),
    ),
    *(
        Model(f"qwen3-{size}-{kind}-2507", replace(shape, max_position=262144))
        for size, shape in _QWEN3_2507.items()
        for kind in ("instruct", "thinking")
    ),
    Model("mistral-7b", _dense(32, 4096, 14336, 32, 8, 128, 32768, 32768)),
    Model("mistral-nemo", _dense(40, 5120, 14336, 32, 8, 128, 131072, 131072)),
    Model("mistral-small-24b", _dense(40, 5120, 32768, 32, 8, 128, 131072, 32768)),
    Model("mistral-small-3.1-24b", _dense(40, 5120, 32768, 32, 8, 128, 131072, 131072)),
    Model("mistral-small-3.2-24b", _dense(40, 5120, 32768, 32, 8, 128, 131072, 131072)),
    Model("mistral-large", _dense(88, 12288, 28672, 96, 8, 128, 32768, 131072)),
    Model("mixtral-8x7b", _experts(_dense(32, 4096, 14336, 32, 8, 128, 32000, 32768), 8, 2, 14336)),
    Model("mixtral-8x22b", _experts(_dense(56, 6144, 16384, 48, 8, 128, 32000, 65536), 8, 2, 16384)),
    Model(
        "gemma-2-2b",
        _dense(26, 2304, 9216, 8, 4, 256, 256000, 8192, tied=True, window=4096, window_layers=13),
    ),
    Model(
        "gemma-2-9b",
        _dense(42, 3584, 14336, 16, 8, 256, 256000, 8192, tied=True, window=4096, window_layers=21),
    ),
    Model(
        "gemma-2-27b",
        _dense(46, 4608, 36864, 32, 16, 128, 256000, 8192, tied=True, window=4096, window_layers=23),
    ),
    Model(
        "gemma-3-1b",
        _dense(26, 1152, 6912, 4, 1, 256, 262144, 32768, tied=True, window=512, window_layers=22),
    ),
    Model(
        "gemma-3-4b",
        _dense(34, 2560, 10240, 8, 4, 256, 262208, 131072, tied=True, window=1024, window_layers=29),
    ),
    Model(
        "gemma-3-12b",
        _dense(48, 3840, 15360, 16, 8, 256, 262208, 131072, tied=True, window=1024, window_layers=40),
    ),
    Model(
        "gemma-3-27b",
        _dense(62, 5376, 21504, 32, 16, 128, 262208, 131072, tied=True, window=1024, window_layers=52),
    ),
    Model("deepseek-v3", _deepseek(128, 129280, 163840, 256, 3), stored="fp8"),
    Model("deepseek-v3.1", _deepseek(128, 129280, 163840, 256, 3), stored="fp8"),
    Model("deepseek-r1", _deepseek(128, 129280, 163840, 256, 3), stored="fp8"),
    Model("kimi-k2", _deepseek(64, 163840, 131072, 384, 1), stored="fp8"),
    Model("deepseek-r1-distill-llama-8b", _LLAMA_8B),
    Model("deepseek-r1-distill-llama-70b", _LLAMA_70B),
    Model("deepseek-r1-distill-qwen-1.5b", replace(_QWEN25["1.5b"], max_position=131072)),
    Model("deepseek-r1-distill-qwen-7b", replace(_QWEN25["7b"], max_position=131072)),
    Model("deepseek-r1-distill-qwen-14b", replace(_QWEN25["14b"], max_position=131072)),
    Model("deepseek-r1-distill-qwen-32b", replace(_QWEN25["32b"], max_position=131072)),
    Model(
        "gpt-oss-20b",
        _experts(
            _dense(24, 2880, 2880, 64, 8, 64, 201088, 131072, window=128, window_layers=12), 32, 4, 2880
        ),
        stored="mxfp4",
    ),
    Model(
        "gpt-oss-120b",
        _experts(
            _dense(36, 2880, 2880, 64, 8, 64, 201088, 131072, window=128, window_layers=18), 128, 4, 2880
        ),
        stored="mxfp4",
    ),
    Model("phi-3.5-mini", _dense(32, 3072, 8192, 32, 32, 96, 32064, 131072)),
    Model("phi-4", _dense(40, 5120, 17920, 40, 10, 128, 100352, 16384)),
    Model("phi-4-mini", _dense(32, 3072, 8192, 24, 8, 128, 200064, 131072, tied=True)),
)
MODELS: Final[dict[str, Model]] = {model.name: model for model in _ALL}

# Endings of repository names that say how the weights are stored.
_STORED: Final = {
    "fp8": "fp8", "awq": "awq", "gptq": "gptq", "int4": "gptq", "w4a16": "gptq", "w8a8": "fp8",
}  # fmt: skip
# Endings that change nothing of the shape.
_SILENT: Final = frozenset(
    {"instruct", "it", "chat", "hf", "base", "pt", "thinking", "dynamic", "static", "quantized", "bf16", "bnb",
     "marlin", "g128", "v0.1", "v0.2", "v0.3", "2407", "2411", "2501", "2503", "2506", "0324", "0528",
     "0905"}
)  # fmt: skip


def model_named(name: str) -> Model | None:
    """The model of a Hugging Face id or of a name of this table; None when it is not in it.

    `RedHatAI/Llama-3.1-8B-Instruct-FP8` is llama-3.1-8b with weights stored in fp8.
    """
    words = name.strip().rstrip("/").rpartition("/")[2].lower().replace("_", "-").split("-")
    if words[0] == "meta":
        words = words[1:]
    stored = None
    while (found := MODELS.get("-".join(words))) is None and words[-1] in _SILENT | _STORED.keys():
        stored = stored or _STORED.get(words[-1])
        words = words[:-1]
        if not words:
            return None
    if found is None or stored is None:
        return found
    return replace(found, stored=stored)


def nearest(name: str, most: int = 3) -> list[str]:
    """Names of the table that a misspelt one may have meant."""
    wanted = name.strip().rpartition("/")[2].lower()
    return difflib.get_close_matches(wanted, MODELS, n=most, cutoff=0.5)
