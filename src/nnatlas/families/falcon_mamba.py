"""Falcon Mamba: Mamba with norms on step sizes, keys and queries inside every mixer."""

from nnatlas.families._mixers import CARRIED, FROM_NOTHING, MAMBA, MAMBA_NOTES, PADDED, SINGLE

FAMILY = SINGLE.but(linear_attn={"path": "mixer", **MAMBA}, notes=MAMBA_NOTES, breaks=CARRIED | FROM_NOTHING | PADDED)
