"""Kimi Linear and Ring/Ling hybrids: Kimi's delta attention in most blocks, latent attention in the others."""

from nnatlas.families._mixers import CARRIED, DELTA_NOTES, KIMI_DELTA, NO_ATTENTION
from nnatlas.families._shapes import LLAMA, PAIRS_TO_HALVES, absent, kind

FAMILY = LLAMA.but(
    covers="kimi_linear bailing_hybrid",
    attention_gate=(
        "self_attn.g_proj > out as batch seq num_heads",
        absent("the heads' outputs are not gated"),
    ),
    kinds=(
        kind(
            "recurrent",
            "has self_attn.forget_gate",
            self_attn=absent(NO_ATTENTION),
            linear_attn={"path": "self_attn", **KIMI_DELTA},
        ),
    ),
    breaks=CARRIED | PAIRS_TO_HALVES,
    notes=DELTA_NOTES
    | {
        "linear_attn.decays": "the factor on each key dimension of a head's state at each token, between 0 and 1",
        "linear_attn.attention_gate": "before its sigmoid; the normed head outputs are multiplied by it",
        "self_attn.attention_gate": "one for each head, before its sigmoid",
    },
)
