"""GPT-J: attention and MLP in parallel on one LayerNorm, and a rotary of neighbouring pairs on part of each head."""

from nnatlas.families._shapes import GPT2_STACK, PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    **GPT2_STACK,
    mlp_norm="ln_1",
    o_proj="out_proj",
    up_proj="fc_in",
    down_proj="fc_out",
)
