"""LFM2: gated short convolutions with attention in a few blocks, a gated MLP (or a mixture) in every one."""

from nnatlas.families._mixers import NO_ATTENTION, PADDED, SHORT_CONV, SHORT_CONV_NOTES
from nnatlas.families._shapes import LLAMA, absent, kind

FAMILY = LLAMA.but(
    covers="lfm2 lfm2_moe lfm2_vl",
    norm="base.embedding_norm",
    attention_norm="operator_norm",
    mlp_norm="ffn_norm",
    mlp="feed_forward",
    mlp_activation="mlp ~ silu[0] > out",
    o_proj="out_proj",
    up_proj=("w3", absent("no separate up projection")),
    down_proj=("w2", absent("the experts' projections are one tensor, not a module")),
    kinds=(
        kind("sparse", "has feed_forward.experts"),
        kind("convolution", "has conv", self_attn=absent(NO_ATTENTION), linear_attn={"path": "conv", **SHORT_CONV}),
    ),
    breaks=PADDED,
    notes=SHORT_CONV_NOTES,
    tiny={"*.layer_types": ["conv", "conv", "full_attention", "conv"]},
)
