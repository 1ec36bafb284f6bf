"""Mamba: no attention and no MLP, only selective state space mixers, each channel with a small state of its own."""

from nnatlas.families._mixers import MAMBA, MAMBA_NOTES, SINGLE

FAMILY = SINGLE.but(linear_attn={"path": "mixer", **MAMBA}, notes=MAMBA_NOTES)
