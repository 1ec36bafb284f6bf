"""GPT-Neo: GPT-2's block with attention written out in a module of its own, unscaled, and a window in every other block."""

from nnatlas.families._shapes import GPT2, WRITTEN_OUT

FAMILY = GPT2.but(
    **WRITTEN_OUT,
    self_attn="attn.attention",
    o_proj="out_proj",
    passes="base.wpe",
    tiny={"attention_types": [[["global", "local"], 2]]},
)
