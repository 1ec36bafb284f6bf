"""Mamba 2: no attention and no MLP, only state space mixers with heads, one decay a head, and a gated norm."""

from nnatlas.families._mixers import CARRIED, MAMBA2, MAMBA_NOTES, PADDED, SINGLE

FAMILY = SINGLE.but(
    linear_attn={"path": "mixer", **MAMBA2},
    notes=MAMBA_NOTES,
    breaks=CARRIED | PADDED,
    tiny={"num_heads": 8, "head_dim": 16},
)
