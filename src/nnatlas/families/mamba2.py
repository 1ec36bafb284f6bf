"""Mamba 2: no attention and no MLP, only state space mixers with heads, one decay a head, and a gated norm."""

from nnatlas.families._mixers import MAMBA2, MAMBA_NOTES, SINGLE

FAMILY = SINGLE.but(linear_attn={"path": "mixer", **MAMBA2}, notes=MAMBA_NOTES, tiny={"num_heads": 8, "head_dim": 16})
