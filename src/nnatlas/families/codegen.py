"""CodeGen: attention and MLP in parallel on one LayerNorm, a partial rotary, and queries, values and keys interleaved."""

from nnatlas.families._shapes import GPT2_STACK, PARALLEL_ONE_NORM, absent

FAMILY = PARALLEL_ONE_NORM.but(
    **GPT2_STACK,
    mlp_norm="ln_1",
    o_proj="out_proj",
    up_proj="fc_in",
    down_proj="fc_out",
    unrotated_queries=absent("the fused projection is split across four groups of heads before the rotary"),
    unrotated_keys=absent("the fused projection is split across four groups of heads before the rotary"),
)
