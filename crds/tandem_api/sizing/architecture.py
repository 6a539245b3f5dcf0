"""The shape of a decoder-only transformer, as far as memory depends on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class UnknownArchitecture(ValueError):
    """The config.json does not say what the arithmetic needs; the message names the missing key."""


@dataclass(frozen=True)
class Architecture:
    """Sizes of one model.

    `kv_heads` is `attention_heads` for multi-head attention, fewer for grouped-query attention, 1 for
    multi-query attention. `experts` is 0 for a dense model.
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

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Architecture":
        """Read a Hugging Face `config.json` (already parsed).

        Raises UnknownArchitecture when a needed key is missing or is no positive whole number.
        """
        # Multimodal models keep the language model's shape one level down.
        config = config.get("text_config") or config

        def whole(key: str, default: int | None = None) -> int:
            value = config.get(key, default)
            if value is None:
                raise UnknownArchitecture(f"config.json has no {key!r}")
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise UnknownArchitecture(
                    f"config.json: {key!r} must be a positive whole number, not {value!r}"
                )
            return value

        if "kv_lora_rank" in config:
            raise UnknownArchitecture("multi-head latent attention (kv_lora_rank) is not sized yet")
        hidden_size = whole("hidden_size")
        attention_heads = whole("num_attention_heads")
        experts = int(config.get("num_local_experts") or config.get("num_experts") or 0)
        intermediate_size = whole("intermediate_size")
        position = config.get("max_position_embeddings")
        return cls(
            layers=whole("num_hidden_layers"),
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            attention_heads=attention_heads,
            kv_heads=whole("num_key_value_heads", attention_heads),
            head_dim=whole("head_dim", hidden_size // attention_heads),
            vocabulary=whole("vocab_size"),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            experts=experts,
            expert_intermediate_size=int(config.get("moe_intermediate_size") or intermediate_size)
            if experts
            else 0,
            max_position=position if isinstance(position, int) else None,
        )

    @property
    def parameters(self) -> int:
        """Number of parameters of a Llama-like model (gated MLP, no biases, RMS norms).

        Checked against published counts: Llama-3.1-8B 8.03e9, Llama-3.1-70B 70.55e9.
        """
        query_and_output = 2 * self.hidden_size * self.attention_heads * self.head_dim
        key_and_value = 2 * self.hidden_size * self.kv_heads * self.head_dim
        if self.experts:
            mlp = 3 * self.hidden_size * self.expert_intermediate_size * self.experts
            mlp += self.hidden_size * self.experts  # the gate that chooses experts
        else:
            mlp = 3 * self.hidden_size * self.intermediate_size
        norms = 2 * self.hidden_size
        embeddings = self.vocabulary * self.hidden_size * (1 if self.tied_embeddings else 2)
        return self.layers * (query_and_output + key_and_value + mlp + norms) + self.hidden_size + embeddings
