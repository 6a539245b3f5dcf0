"""The shape of a decoder-only transformer, as far as memory and arithmetic depend on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Two matrices per MLP instead of three: these multiply no gate into the hidden layer.
_UNGATED: Final = frozenset({"starcoder2", "phi", "nemotron", "opt"})
# Keys of caches or layers whose size no formula here tells: better unknown than wrong.
_FOREIGN: Final = {
    "index_topk": "sparse attention with an index",
    "compress_ratios": "compressed attention",
    "hybrid_layer_pattern": "layers of several head sizes",
    "global_head_dim": "layers of several head sizes",
    "block_configs": "layers of different shapes",
    "hybrid_override_pattern": "state-space layers",
    "linear_attn_config": "linear attention",
    "full_attention_interval": "linear attention",
    "attention_chunk_size": "chunked attention",
}
_FULL, _SLIDING = "full_attention", "sliding_attention"


class UnknownArchitecture(ValueError):
    """The config.json does not say what the arithmetic needs; the message names the missing key."""


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek V2): a token's keys and values are one vector of `rank` + `rope_dim`.

    Tensor parallelism cannot divide that vector: each rank keeps it whole. `query_rank` is 0 where queries are not
    compressed.
    """

    rank: int
    rope_dim: int
    query_rank: int
    plain_dim: int  # of a head's queries and keys, without position
    value_dim: int


@dataclass(frozen=True)
class Architecture:
    """Sizes of one model.

    `kv_heads` is `attention_heads` for multi-head attention, fewer for grouped-query attention, 1 for
    multi-query attention. `experts` is 0 for a dense model; of a mixture each token passes `experts_per_token` (0: all)
    and an MLP of `shared_intermediate_size`, and the first `dense_layers` layers have a plain MLP instead.
    `window_layers` of the layers look back over `window` tokens only and forget the rest.
    """

    layers: int
    hidden_size: int
    intermediate_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied_embeddings: bool = False
    experts: int = 0
    expert_intermediate_size: int = 0
    max_position: int | None = None
    experts_per_token: int = 0
    shared_intermediate_size: int = 0
    dense_layers: int = 0
    window: int = 0
    window_layers: int = 0
    latent: Latent | None = None
    gated: bool = True

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Architecture":
        """Read a Hugging Face `config.json` (already parsed).

        Raises UnknownArchitecture when a needed key is missing or is no positive whole number, and for kinds of
        attention that are not sized.
        """
        # Multimodal models keep the language model's shape one level down.
        config = config.get("text_config") or config
        _refuse_foreign(config)
        latent = _latent(config)
        hidden_size = _whole(config, "hidden_size")
        attention_heads = _whole(config, "num_attention_heads")
        experts = _count(config, "num_local_experts", "num_experts", "n_routed_experts")
        intermediate_size = _whole(config, "intermediate_size")
        layers = _whole(config, "num_hidden_layers")
        position = config.get("max_position_embeddings")
        expert_size = _count(config, "moe_intermediate_size") or intermediate_size
        window, window_layers = _windows(config, layers)
        return cls(
            layers=layers,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            attention_heads=attention_heads,
            kv_heads=_whole(config, "num_key_value_heads", attention_heads),
            head_dim=(latent.plain_dim + latent.rope_dim if latent is not None
                      else _whole(config, "head_dim", hidden_size // attention_heads)),
            vocabulary=_whole(config, "vocab_size"),
            tied_embeddings=bool(config.get("tie_word_embeddings", _ties_by_default(config))),
            experts=experts,
            expert_intermediate_size=expert_size if experts else 0,
            max_position=position if isinstance(position, int) else None,
            experts_per_token=_count(config, "num_experts_per_tok") if experts else 0,
            shared_intermediate_size=_shared(config, expert_size) if experts else 0,
            dense_layers=_count(config, "first_k_dense_replace") if experts else 0,
            window=window,
            window_layers=window_layers,
            latent=latent,
            gated=config.get("model_type") not in _UNGATED,
        )  # fmt: skip

    @property
    def embedding_parameters(self) -> int:
        """Of the table that tokens are looked up in, and of the output head where it is not the same."""
        return self.vocabulary * self.hidden_size * (1 if self.tied_embeddings else 2)

    @property
    def expert_parameters(self) -> int:
        """Of all experts that tokens choose among; 0 for a dense model."""
        return self._expert_layers * self.experts * self._mlp(self.expert_intermediate_size)

    @property
    def parameters(self) -> int:
        """Number of parameters, without biases and without the small norms within heads.

        Checked against published counts: tests/api/test_models_are_as_large_as_published.py.
        """
        return self._common_parameters + self.expert_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token passes; those of a dense model are all."""
        if not self.experts or not self.experts_per_token:
            return self.parameters
        return self._common_parameters + self.expert_parameters * self.experts_per_token // self.experts

    @property
    def _expert_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def _common_parameters(self) -> int:
        """All but the experts."""
        each = self._attention() + 2 * self.hidden_size  # two norms
        plain = (self.layers - self._expert_layers) * self._mlp(self.intermediate_size)
        choosing = self._expert_layers * (
            self.hidden_size * self.experts + self._mlp(self.shared_intermediate_size)
        )
        return self.layers * each + plain + choosing + self.hidden_size + self.embedding_parameters

    def _mlp(self, size: int) -> int:
        return (3 if self.gated else 2) * self.hidden_size * size

    def _attention(self) -> int:
        hidden, heads, latent = self.hidden_size, self.attention_heads, self.latent
        if latent is None:
            return 2 * hidden * heads * self.head_dim + 2 * hidden * self.kv_heads * self.head_dim
        width = heads * (latent.plain_dim + latent.rope_dim)
        queries = latent.query_rank * (hidden + width) if latent.query_rank else hidden * width
        down = hidden * (latent.rank + latent.rope_dim)
        up = latent.rank * heads * (latent.plain_dim + latent.value_dim)
        return queries + down + up + heads * latent.value_dim * hidden


# --- reading config.json ------------------------------------------------------------------------------------
def _whole(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if value is None:
        raise UnknownArchitecture(f"config.json has no {key!r}")
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise UnknownArchitecture(f"config.json: {key!r} must be a positive whole number, not {value!r}")
    return value


def _count(config: Mapping[str, Any], *keys: str) -> int:
    """The first of the keys that says something; 0 when none does."""
    for key in keys:
        value = config.get(key)
        if value:
            return _whole(config, key)
    return 0


def _refuse_foreign(config: Mapping[str, Any]) -> None:
    for key, what in _FOREIGN.items():
        if config.get(key):
            raise UnknownArchitecture(f"{what} ({key}) is not sized")
    kinds = config.get("layer_types")
    for kind in kinds if isinstance(kinds, list) else ():
        if kind not in (_FULL, _SLIDING):
            raise UnknownArchitecture(f"layers of {kind} (layer_types) are not sized")


def _latent(config: Mapping[str, Any]) -> Latent | None:
    if not config.get("kv_lora_rank"):
        return None
    return Latent(
        rank=_whole(config, "kv_lora_rank"),
        rope_dim=_whole(config, "qk_rope_head_dim"),
        query_rank=_count(config, "q_lora_rank"),
        plain_dim=_whole(config, "qk_nope_head_dim"),
        value_dim=_whole(config, "v_head_dim"),
    )


def _shared(config: Mapping[str, Any], expert_size: int) -> int:
    """Width of the MLP that every token passes beside its experts."""
    return _count(config, "shared_expert_intermediate_size") or expert_size * _count(
        config, "n_shared_experts"
    )


def _windows(config: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """(tokens, layers) of the sliding windows; (0, 0) where every layer sees all."""
    window = config.get("sliding_window")
    if not window or config.get("use_sliding_window") is False:
        return 0, 0
    window = _whole(config, "sliding_window")
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return window, sum(kind == _SLIDING for kind in kinds)
    family = str(config.get("model_type", ""))
    if family.startswith("gemma2"):
        return window, layers - layers // 2
    if family.startswith("gemma3"):
        every = _count(config, "sliding_window_pattern", "_sliding_window_pattern") or 6
        return window, layers - layers // every
    if config.get("use_sliding_window"):  # Qwen2: only the layers above `max_window_layers`
        return window, max(0, layers - _count(config, "max_window_layers"))
    return window, layers


def _ties_by_default(config: Mapping[str, Any]) -> bool:
    """Of config.json the values that are the family's defaults are left out, and Gemma's default is to tie."""
    return str(config.get("model_type", "")).startswith("gemma")
