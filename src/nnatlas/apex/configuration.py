"""APEX-1's configuration: transformers' field names, with every name of the APEX-1 document accepted as well.

What is unusual
- two kinds of attention block: local ones (grouped queries, `sliding_window`) and, every `global_layer_freq`-th, a
  global one over a compressed latent; two kinds of feed-forward: dense ones and, off every `moe_layer_freq`-th,
  experts;
- `logit_scale` (None means hidden_size ** -0.5): the tied head reads a normed stream with embeddings that the input
  multiplies by sqrt(hidden_size), so without it an untrained model predicts its own last token;
- `draft_width`, 0 in the document's sizes, is the width of a small chain that tells the multi-token heads, while
  drafting, which tokens stand between (heads.py);
- the two `legacy_*` switches (and a logit scale of 1) give the public code's arithmetic, for comparing numbers with it.
"""

from __future__ import annotations

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from nnatlas.apex.presets import PRESETS
from nnatlas.errors import InputError


def is_global_layer(layer_idx: int, global_layer_freq: int) -> bool:
    """Whether block `layer_idx` attends globally: the last of every `global_layer_freq` blocks does."""
    return layer_idx % global_layer_freq == global_layer_freq - 1


@strict
class Apex1Config(PreTrainedConfig):
    """Everything that decides the shape and the arithmetic of an APEX-1.

    Fields are spelled as transformers spells them; the document's spellings (`d_model`, `n_heads_kv`, `local_window`,
    ...) are aliases, in the constructor as on the object.  Sizes count numbers, `sliding_window` counts tokens and
    includes the token itself.  Raises `InputError` for sizes that cannot be built.

    >>> Apex1Config(d_model=64, n_layers=6, n_heads_q=4, d_head=16).hidden_size
    64
    """

    model_type = "apex1"
    keys_to_ignore_at_inference = ["cache"]
    attribute_map = {
        "d_model": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads_q": "num_attention_heads",
        "n_heads_kv": "num_key_value_heads",
        "d_head": "head_dim",
        "d_head_rope": "qk_rope_head_dim",
        "d_kv_compressed": "kv_lora_rank",
        "d_q_compressed": "q_lora_rank",
        "d_ffn": "intermediate_size",
        "max_seq_len": "max_position_embeddings",
        "local_window": "sliding_window",
        "n_experts": "num_local_experts",
        "num_experts": "num_local_experts",
        "n_active": "num_experts_per_tok",
        "n_shared": "n_shared_experts",
    }

    vocab_size: int = 151643
    hidden_size: int = 512
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 64
    qk_rope_head_dim: int = 32
    kv_lora_rank: int = 64
    q_lora_rank: int = 96
    intermediate_size: int = 1376
    max_position_embeddings: int = 8192
    rope_parameters: dict[str, Any] | None = None
    global_layer_freq: int = 6
    sliding_window: int = 512
    layer_types: list[str] | None = None
    attention_dropout: float | int = 0.0
    moe_enabled: bool = True
    moe_layer_freq: int = 2
    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    n_shared_experts: int = 1
    balancer_alpha: float = 1e-3
    skip_gate_enabled: bool = True
    skip_gate_hidden_dim: int = 64
    skip_gate_threshold: float = 0.15
    n_predict: int = 4
    lambda_spec: float = 0.1
    first_head_offset: int = 1
    draft_width: int = 0
    logit_scale: float | int | None = None
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    initializer_range: float = 0.02
    use_cache: bool = True
    tie_word_embeddings: bool = True
    output_router_logits: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    legacy_yarn: bool = False
    legacy_expert_weights: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        for alias in self.attribute_map.keys() & kwargs.keys():  # before anything is derived from them
            setattr(self, alias, kwargs.pop(alias))
        rope = {"rope_type": "default", "rope_theta": 10000.0} | (self.rope_parameters or {})
        self.rope_parameters = rope
        if self.logit_scale is None:
            self.logit_scale = self.hidden_size**-0.5
        if self.layer_types is None:
            self.layer_types = self._kinds()
        self._refuse_impossible_sizes()
        super().__post_init__(**kwargs)

    def is_global_layer(self, layer_idx: int) -> bool:
        """Whether this block attends globally, over the latent."""
        return is_global_layer(layer_idx, self.global_layer_freq)

    def is_moe_layer(self, layer_idx: int) -> bool:
        """Whether this block's feed-forward is a mixture of experts."""
        return self.moe_enabled and layer_idx % self.moe_layer_freq != 0

    @property
    def head_offsets(self) -> range:
        """How many tokens ahead each multi-token head predicts; 1 is the next token, which the main head predicts."""
        return range(self.first_head_offset, self.first_head_offset + self.n_predict)

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Apex1Config:
        """One of the document's sizes: tiny, small, medium or large, with any field replaced.

        >>> Apex1Config.preset("tiny", vocab_size=128).hidden_size
        64
        """
        if name not in PRESETS:
            raise InputError(f"no APEX-1 preset {name!r}; there are {', '.join(PRESETS)}")
        return cls.from_sections(PRESETS[name], **overrides)

    @classmethod
    def from_sections(cls, sections: dict[str, dict[str, Any]], legacy: bool = False, **overrides: Any) -> Apex1Config:
        """From the document's nested sections (`model`, `attention`, `moe`, `skip_gate`, `multi_token_head`).

        `legacy=True` also chooses the public code's arithmetic: its YaRN step, its biased expert weights, no logit
        scale.
        """
        fields = _flatten(sections)
        if legacy:
            fields |= {"legacy_yarn": True, "legacy_expert_weights": True, "logit_scale": 1.0}
        return cls(**(cls._without_aliases(fields) | cls._without_aliases(overrides)))

    @classmethod
    def _without_aliases(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {cls.attribute_map.get(name, name): value for name, value in fields.items()}

    def _refuse_impossible_sizes(self) -> None:
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        active, experts = self.num_experts_per_tok, self.num_local_experts
        widths = self.head_dim, self.qk_rope_head_dim
        wrong = [
            (heads % kv_heads, f"{heads} query heads cannot share {kv_heads} kv heads evenly"),
            (self.moe_enabled and active > experts, f"{active} active experts of {experts}"),
            (any(width % 2 for width in widths), f"rotary widths must be even: head_dim, qk_rope_head_dim = {widths}"),
            (self.sliding_window < 2, f"sliding_window {self.sliding_window} counts the token itself; use 2 or more"),
            (
                self.first_head_offset not in (1, 2),
                f"first_head_offset {self.first_head_offset} leaves a gap; use 1 or 2",
            ),
            (self.layer_types != self._kinds(), f"layer_types must follow global_layer_freq: {self._kinds()}"),
        ]
        for is_wrong, message in wrong:
            if is_wrong:
                raise InputError(f"Apex1Config: {message}")

    def _kinds(self) -> list[str]:
        """Each block's attention in transformers' words, which caches and masks go by."""
        is_global = map(self.is_global_layer, range(self.num_hidden_layers))
        return ["full_attention" if yes else "sliding_attention" for yes in is_global]


def _flatten(sections: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The document's sections as this class's fields; sections about training or vision are not the model's."""
    fields = {k: v for k, v in sections["model"].items() if k not in ("rope_base", "rope_scaling", "dropout")}
    fields["rope_parameters"] = _rope_parameters(sections["model"])
    fields |= {k: v for k, v in sections["attention"].items() if k != "flash"}
    moe = dict(sections["moe"])
    fields["moe_enabled"] = moe.pop("enabled")
    fields |= moe
    fields |= {f"skip_gate_{key}": value for key, value in sections["skip_gate"].items()}
    heads = sections["multi_token_head"]
    fields |= {"n_predict": heads["n_predict"] * heads["enabled"], "lambda_spec": heads["lambda_spec"]}
    return fields


def _rope_parameters(model: dict[str, Any]) -> dict[str, Any]:
    """`max_seq_len` is the length after scaling, so the length before it is `max_seq_len / rope_scaling`."""
    base, factor = model["rope_base"], model["rope_scaling"]
    if factor <= 1:
        return {"rope_type": "default", "rope_theta": base}
    original = int(model["max_seq_len"] / factor)
    return {"rope_type": "yarn", "rope_theta": base, "factor": factor, "original_max_position_embeddings": original}
