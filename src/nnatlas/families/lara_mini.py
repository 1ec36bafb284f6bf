"""Lara mini: gated delta rule and attention in turn, a mixture with an ungated shared expert in every block."""

from nnatlas.families._mixers import CARRIED, DELTA, DELTA_NOTES, NO_ATTENTION
from nnatlas.families._shapes import LLAMA, absent, kind

FAMILY = LLAMA.but(
    kinds=(
        kind(
            "recurrent", "has linear_attn", self_attn=absent(NO_ATTENTION), linear_attn={"path": "linear_attn", **DELTA}
        ),
    ),
    breaks=CARRIED,
    notes=DELTA_NOTES,
)
