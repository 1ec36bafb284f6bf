"""Bamba: Mamba-2 mixers with attention in a few blocks, a gated MLP in every one."""

from nnatlas.families._mixers import CARRIED, MAMBA2, MAMBA_NOTES, NO_ATTENTION, PADDED
from nnatlas.families._shapes import LLAMA, absent, kind

FAMILY = LLAMA.but(
    norm="base.final_layernorm",
    mlp="feed_forward",
    mlp_norm="pre_ff_layernorm",
    kinds=(kind("recurrent", "has mamba", self_attn=absent(NO_ATTENTION), linear_attn={"path": "mamba", **MAMBA2}),),
    breaks=CARRIED | PADDED,
    notes=MAMBA_NOTES,
    tiny={"attn_layer_indices": [2]},
)
