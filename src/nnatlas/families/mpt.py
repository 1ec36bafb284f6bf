"""MPT: ALiBi positions, LayerNorms without biases, attention written out, and a residual added inside the MLP."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY, WRITTEN_OUT

FAMILY = LLAMA.but(
    **NO_ROTARY,
    **WRITTEN_OUT,
    base="transformer",
    layers="base.blocks",
    embed_tokens="base.wte",
    norm="base.norm_f",
    self_attn="attn",
    mlp="ffn",
    attention_norm="norm_1",
    mlp_norm="norm_2",
    o_proj="out_proj",
    mlp_output="down_proj > out",
    breaks={
        "batch cache self_attn.attention_scores": "a cached step's ALiBi bias is shifted by a constant, which the softmax drops"
    },
)
