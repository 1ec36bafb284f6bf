"""Mamba: no attention and no MLP, only selective state space mixers, each channel with a small state of its own."""

from nnatlas.families._mixers import CARRIED, FROM_NOTHING, MAMBA, MAMBA_NOTES, PADDED, SINGLE

FAMILY = SINGLE.but(linear_attn={"path": "mixer", **MAMBA}, notes=MAMBA_NOTES, breaks=CARRIED | FROM_NOTHING | PADDED)
