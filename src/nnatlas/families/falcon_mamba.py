"""Falcon Mamba: Mamba with norms on step sizes, keys and queries inside every mixer."""

from nnatlas.families._mixers import MAMBA, MAMBA_NOTES, SINGLE

FAMILY = SINGLE.but(linear_attn={"path": "mixer", **MAMBA}, notes=MAMBA_NOTES)
