"""Inkling 2: sublayers read a learned mixture of the stream's partial sums, and the sum starts anew every few blocks."""

from nnatlas.families._partial_sums import INKLING2, INKLING2_BREAKS, INKLING2_KINDS, INKLING2_NOTES
from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    **INKLING2,
    covers="inkling2 inkling2_text",
    kinds=INKLING2_KINDS,
    notes=INKLING2_NOTES,
    breaks=INKLING2_BREAKS,
    tiny={"*.n_layers_per_attn_res_block": 2},
)
