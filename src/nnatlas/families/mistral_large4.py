"""Mistral Large 4: latent attention over picked keys; later blocks take over an earlier one's latent and choice, and some apply no rotary."""

from nnatlas.families._shapes import LLAMA, absent

FAMILY = LLAMA.but(
    indexer_choice=("self_attn.indexer > out as batch query chosen", absent("this block attends to what an earlier block's indexer picked")),
    readout="norm | lm_head | cap final_logit_softcapping",
)
