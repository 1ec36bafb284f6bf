"""Chameleon: text and image tokens in one vocabulary; each head of queries and keys has a LayerNorm of its own."""

from nnatlas.families._shapes import LLAMA, NORMS_AFTER, kind

FAMILY = LLAMA.but(
    unrotated_queries="q_norm > out : (batch seq) num_heads qk_head_dim",
    unrotated_keys="k_norm > out : (batch seq) num_kv_heads qk_head_dim",
    lm_head_output="lm_head > out copied",
    readout="norm | lm_head | never base.vocabulary_mapping.image_tokens",
    notes={"logits": "the scores of image tokens are put down to the least number, in place"},
    kinds=(kind("norm after", "config.swin_norm", **NORMS_AFTER),),
    tiny={"vocabulary_map": {"<image>": 5}},
)
