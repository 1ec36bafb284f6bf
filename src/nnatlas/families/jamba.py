"""Jamba: Mamba mixers with normed step sizes, keys and queries; attention in one block of a few; every other MLP a mixture."""

from nnatlas.families._mixers import CARRIED, FROM_NOTHING, MAMBA, MAMBA_NOTES, NO_ATTENTION, PADDED
from nnatlas.families._shapes import LLAMA, absent, kind

FAMILY = LLAMA.but(
    norm="base.final_layernorm",
    mlp="feed_forward",
    mlp_norm="pre_ff_layernorm",
    unrotated_queries="same as attention_queries",
    unrotated_keys="same as attention_keys",
    kinds=(
        kind("sparse", "has feed_forward.experts"),
        kind("recurrent", "has mamba", self_attn=absent(NO_ATTENTION), linear_attn={"path": "mamba", **MAMBA}),
    ),
    breaks=CARRIED | FROM_NOTHING | PADDED,
    notes=MAMBA_NOTES | {"unrotated_queries": "no rotary is applied", "unrotated_keys": "no rotary is applied"},
    tiny={"attn_layer_period": 4, "attn_layer_offset": 2},
)
