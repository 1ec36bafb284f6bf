"""DeepSeek 3.2: DeepSeek 3 whose queries attend only to the keys that a small indexer picks."""

from nnatlas.families._shapes import INDEXED, LATENT_KEYS, LLAMA

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    indexer_choice="self_attn.indexer > out as batch query chosen",
    breaks=INDEXED,
)
