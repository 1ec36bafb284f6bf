"""Zamba 2: Mamba-2 mixers; in some blocks one of two shared transformers first adds to what the mixer reads, not to the stream."""

from nnatlas.families._mixers import ASIDE, CARRIED, CLAMPED, MAMBA2, MAMBA_NOTES, NO_ATTENTION, PADDED, SINGLE
from nnatlas.families._shapes import AS_CALLED, absent, kind

_ASIDE = "the shared transformer's output is added to what this block's mixer reads, not to the stream: see .linear"

FAMILY = SINGLE.but(
    base="model",
    embed_tokens="base.embed_tokens",
    norm="base.final_layernorm",
    self_attn=absent(NO_ATTENTION),
    attention_norm="input_layernorm",
    linear_attn={"path": "mamba", **MAMBA2},
    identity="layer_input + linear_attn.attention_output = layer_output",
    unrotated_queries="same as attention_queries",
    unrotated_keys="same as attention_keys",
    kinds=(
        kind("rotated", "config.use_mem_rope", **AS_CALLED),
        kind(
            "hybrid",
            "has shared_transformer",
            linear_attn={"path": "mamba_decoder.mamba"},
            attention_norm="mamba_decoder.input_layernorm",
            self_attn="shared_transformer.self_attn",
            attention_output=absent(_ASIDE),
            attention_head_contributions=absent(_ASIDE),
            mlp="shared_transformer.feed_forward",
            mlp_input="mlp > in",
            mlp_output=absent(_ASIDE),
            mlp_norm_output=absent("the shared MLP reads the shared attention's output, normed, not the stream"),
            layer_mid=absent(_ASIDE),
        ),
    ),
    breaks=ASIDE | CARRIED | PADDED | CLAMPED,
    passes="block.linear block.shared_transformer.input_layernorm block.shared_transformer.pre_ff_layernorm",
    notes=MAMBA_NOTES
    | {
        "attention_norm_output": "in hybrid blocks the norm of the stream and the shared transformer's output together",
        "mlp_input": "the normed output of the shared attention",
    },
    tiny={
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid", "linear_attention", "hybrid"],
        "num_hidden_layers": 6,
        "hybrid_layer_ids": [1, 3, 5],
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "num_key_value_heads": 4,
        "num_query_groups": 4,
        "mamba_headdim": 16,
        "num_mem_blocks": 2,
    },
)
