"""APEX-1, top to bottom: embedding -> blocks -> final norm -> tied head and multi-token heads.

What is unusual, each in its own file
- two kinds of attention, local (attention_local.py) and global over a latent (attention_latent.py), hence two rotary
  caches;
- two kinds of feed-forward, dense and experts (feedforward.py), optionally skipped token by token (skip_gate.py);
- embeddings scaled by sqrt(hidden_size) on the way in, logits by `logit_scale` on the way out;
- extra heads for tokens further ahead (heads.py), which `generate(..., use_mtp=True)` decodes with (generation.py);
- a prefix that sees itself in both directions (masks.py).

Importing this module registers the model with transformers' Auto classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import MoeModelOutputWithPast
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from nnatlas.apex.attention import eager_attention_forward  # noqa: F401  the fallback both attentions use
from nnatlas.apex.attention_latent import Apex1LatentAttention
from nnatlas.apex.attention_local import Apex1LocalAttention
from nnatlas.apex.cache_name import CACHE
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.feedforward import Apex1Experts, Apex1MLP, Apex1MoE, Apex1Router
from nnatlas.apex.generation import Apex1Generation
from nnatlas.apex.heads import Apex1MultiTokenHead
from nnatlas.apex.losses import training_loss, without_prefix
from nnatlas.apex.masks import Prefix, attention_masks
from nnatlas.apex.norm import Apex1RMSNorm
from nnatlas.apex.outputs import Apex1CausalLMOutput, kept_positions
from nnatlas.apex.rotary import Apex1RotaryCache
from nnatlas.apex.skip_gate import Apex1SkipGate
from nnatlas.errors import InputError


class Apex1Block(GradientCheckpointingLayer):
    """norm, attention, add; norm, feed-forward (gated where the config says so), add."""

    def __init__(self, config: Apex1Config, layer_idx: int) -> None:
        super().__init__()
        self.is_global, self.is_moe = config.is_global_layer(layer_idx), config.is_moe_layer(layer_idx)
        self.norm1 = Apex1RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attn = (Apex1LatentAttention if self.is_global else Apex1LocalAttention)(config, layer_idx)
        self.norm2 = Apex1RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.ffn = (Apex1MoE if self.is_moe else Apex1MLP)(config)
        self.skip_gate = Apex1SkipGate(config) if config.skip_gate_enabled else None

    def forward(
        self, hidden_states: torch.Tensor, real_tokens: torch.Tensor | None = None, **attention: Any
    ) -> torch.Tensor:
        """[batch, seq, hidden] -> the same; `real_tokens` is False on padding, the rest goes to the attention."""
        mixed, _ = self.attn(self.norm1(hidden_states), cache=attention.pop(CACHE, None), **attention)
        hidden_states = hidden_states + mixed
        normed = self.norm2(hidden_states)
        about_tokens = {"real_tokens": real_tokens} if self.is_moe and self.training else {}
        if self.skip_gate is None:
            return hidden_states + self.ffn(normed, **about_tokens)
        # the gate reads the stream itself, not the normed one
        return hidden_states + self.skip_gate(hidden_states, self.ffn, normed, **about_tokens)


class Apex1PreTrainedModel(PreTrainedModel):
    """What transformers needs to know to load, save, shard and record an APEX-1."""

    config: Apex1Config
    config_class = Apex1Config
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Apex1Block"]
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _keep_in_fp32_modules_strict = ["expert_bias"]
    _can_record_outputs = {
        "hidden_states": Apex1Block,
        "attentions": [OutputRecorder(kind, index=1) for kind in (Apex1LocalAttention, Apex1LatentAttention)],
        "router_logits": OutputRecorder(Apex1Router, index=0),
    }

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        """transformers looks for the experts' decorator in this file's source; it is applied in feedforward.py."""
        return True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Normal with `initializer_range` for every matrix, without depth scaling; norms 1, biases 0."""
        super()._init_weights(module)
        std = self.config.initializer_range
        if isinstance(module, Apex1Router):
            init.normal_(module.weight, std=std)
        elif isinstance(module, Apex1Experts):
            init.normal_(module.gate_up_proj, std=std)
            init.normal_(module.down_proj, std=std)
        elif isinstance(module, Apex1MoE):
            init.zeros_(module.expert_bias)
        elif isinstance(module, Apex1RotaryCache):
            init.copy_(module.inv_freq, module.exact_frequencies())


class Apex1Model(Apex1PreTrainedModel):
    """Tokens to the stream after the final norm."""

    def __init__(self, config: Apex1Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_scale = config.hidden_size**0.5
        self.blocks = nn.ModuleList(Apex1Block(config, i) for i in range(config.num_hidden_layers))
        self.final_norm = Apex1RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_cache = Apex1RotaryCache(config, config.head_dim)
        self.rotary_cache_rope = Apex1RotaryCache(config, config.qk_rope_head_dim)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The token embedding, before its scale."""
        return self.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embedding."""
        self.embedding = value  # type: ignore[assignment]

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        prefix_len: Prefix = 0,
        **kwargs: Any,
    ) -> MoeModelOutputWithPast:
        """input_ids [batch, seq] (or inputs_embeds, not yet scaled) -> last_hidden_state [batch, seq, hidden] and
        cache.

        attention_mask [batch, past + seq] is 0 on padding; prefix_len, an int or [batch], counts each row's leading
        tokens that see one another in both directions.  Raises `InputError` unless exactly one kind of input is given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("APEX-1 takes input_ids or inputs_embeds, one of the two")
        cache = kwargs.pop(CACHE, cache)  # as generate passes it
        embeds = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        seq = embeds.shape[1]
        if position_ids is None:
            past = cache.get_seq_length() if cache is not None else 0
            position_ids = (torch.arange(seq, device=embeds.device) + past).unsqueeze(0)
        masks = attention_masks(self.config, embeds, attention_mask, cache, position_ids, prefix_len)
        rotary = {True: self.rotary_cache_rope(position_ids), False: self.rotary_cache(position_ids)}
        has_padding = attention_mask is not None and attention_mask.ndim == 2
        real_tokens = attention_mask[:, -seq:].bool() if has_padding else None  # type: ignore[index]

        hidden_states = embeds * self.embed_scale
        for block, kind in zip(self.blocks, self.config.layer_types or (), strict=True):
            hidden_states = block(
                hidden_states,
                real_tokens=real_tokens,
                rotary=rotary[bool(block.is_global)],
                attention_mask=masks[kind],
                **{CACHE: cache},
                **kwargs,
            )
        held: dict[str, Any] = {CACHE: cache}
        return MoeModelOutputWithPast(last_hidden_state=self.final_norm(hidden_states), **held)


class Apex1ForCausalLM(Apex1Generation, Apex1PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """APEX-1 with its heads: logits for the next token, and for the tokens after it.

    >>> model = Apex1ForCausalLM(Apex1Config.preset("tiny"))
    >>> model(torch.tensor([[1, 2, 3]])).logits.shape
    torch.Size([1, 3, 1000])
    """

    _tied_weights_keys = {"lm_head.weight": "model.embedding.weight"}

    def __init__(self, config: Apex1Config) -> None:
        super().__init__(config)
        self.model = Apex1Model(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.multi_token_head = Apex1MultiTokenHead(config) if config.n_predict else None
        self.post_init()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As everywhere in transformers, which would wake a draft chain that its own tuning has put to rest."""
        loaded: Any = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded  # with output_loading_info=True
        if model.multi_token_head is not None and model.multi_token_head.chain is not None:
            model.multi_token_head.chain.requires_grad_(False)
        return loaded

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Cache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        prefix_len: Prefix = 0,
        logits_to_keep: int | torch.Tensor = 0,
        return_spec_logits: bool = True,
        return_hidden: bool = False,
        **kwargs: Any,
    ) -> Apex1CausalLMOutput:
        """As `Apex1Model.forward`; labels [batch, seq] are the input ids themselves, -100 where nothing is to be
        learnt.

        Labels are shifted here, and those inside a prefix are ignored.  `return_spec_logits=False` leaves the
        multi-token heads out; `return_hidden=True` also returns the stream after the final norm.
        """
        num_items = kwargs.pop("num_items_in_batch", None)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            prefix_len=prefix_len,
            **kwargs,
        )
        stream = outputs.last_hidden_state
        kept = kept_positions(stream, logits_to_keep)
        logits = self.lm_head(kept) * self.config.logit_scale
        spec_logits = self.multi_token_head(kept) if self.multi_token_head and return_spec_logits else None
        loss = None
        if labels is not None:
            labels = without_prefix(labels, prefix_len, attention_mask)
            loss = training_loss(self.config, logits, spec_logits, labels, num_items)
        output = Apex1CausalLMOutput(
            loss=loss,
            logits=logits,
            spec_logits=spec_logits,
            cache=getattr(outputs, CACHE),
            hidden_states=stream if return_hidden else outputs.hidden_states,
            attentions=outputs.attentions,
            router_logits=outputs.router_logits,
        )
        output.rope_dim, output.heads_read = self.config.qk_rope_head_dim, kept
        return output

    def draft_step(
        self, state: torch.Tensor, stream: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Move a draft chain's `state` [..., hidden], begun as `stream`, by the `tokens` [...] placed next.

        Returns the new state, and what it adds to the logits of the head that guesses the token after them, [..., vocab].
        """
        assert self.multi_token_head is not None and self.multi_token_head.chain is not None
        # by their weights: whoever watches the embedding or the head is shown the model's own calls only
        embedded = nn.functional.embedding(tokens, self.model.embedding.weight) * self.model.embed_scale
        state = self.multi_token_head.chain(state, embedded)
        added: Any = nn.functional.linear(state - stream, self.lm_head.weight)
        return state, added * self.config.logit_scale

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> nn.Embedding:
        """As everywhere in transformers; the multi-token heads are resized along, new rows at their mean."""
        embedding: nn.Embedding = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        heads = self.multi_token_head.heads if self.multi_token_head else []
        for k, head in enumerate(heads):
            heads[k] = self._get_resized_lm_head(head, embedding.num_embeddings)
        return embedding

    def count_parameters(self) -> dict[str, int]:
        """`total` weights, `moe_idle` in routed experts that a token does not pass through, and `active`, the rest."""
        total, config = sum(parameter.numel() for parameter in self.parameters()), self.config
        one_expert = 3 * config.hidden_size * config.intermediate_size
        unused = config.num_local_experts - config.num_experts_per_tok
        idle = sum(unused * one_expert for block in self.model.blocks if block.is_moe)
        return {"total": total, "active": total - idle, "moe_idle": idle}


AutoConfig.register("apex1", Apex1Config, exist_ok=True)
AutoModel.register(Apex1Config, Apex1Model, exist_ok=True)
AutoModelForCausalLM.register(Apex1Config, Apex1ForCausalLM, exist_ok=True)
