"""DeepSeek 3.2: DeepSeek 3 whose queries attend only to the keys that a small indexer picks."""

from nnatlas.families._shapes import INDEXED, LLAMA

FAMILY = LLAMA.but(
    indexer_choice="self_attn.indexer > out as batch query chosen",
    breaks=INDEXED,
)
