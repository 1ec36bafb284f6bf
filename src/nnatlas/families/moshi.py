"""Moshi: the text model of a speech dialogue system; its projections are wrapped, its MLP gates with half of a fused one."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    q_proj="q_proj.linear",
    k_proj="k_proj.linear",
    v_proj="v_proj.linear",
    o_proj="o_proj.linear",
    down_proj="fc2",
    breaks={"batch": "transformers' own cached generation differs from its uncached one here"},
)
