"""Kimi Linear and Ring/Ling hybrids: Kimi's delta attention in most blocks, latent attention in the others."""

from nnatlas.families._mixers import CARRIED, KIMI_KIND, KIMI_NOTES
from nnatlas.families._shapes import LATENT_KEYS, LLAMA, absent

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    covers="kimi_linear bailing_hybrid",
    attention_gate=(
        "self_attn.g_proj > out as batch seq num_heads",
        absent("the heads' outputs are not gated"),
    ),
    kinds=(KIMI_KIND,),
    breaks=CARRIED,
    notes=KIMI_NOTES | {"self_attn.attention_gate": "one for each head, before its sigmoid"},
)
