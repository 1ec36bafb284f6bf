"""PaliGemma: a Gemma behind an image tower; image and prompt are one prefix whose tokens all see each other."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    notes={"attention_probabilities": "without token_type_ids, sdpa lets all tokens see each other, while eager is causal"},
    breaks={
        "chain attention_probabilities": "without token_type_ids, sdpa lets all tokens see each other",
        "chain unrotated_queries": "positions are counted from 1, so that the first is rotated too",
        "chain unrotated_keys": "positions are counted from 1, so that the first is rotated too",
        "causal": "without token_type_ids, sdpa lets earlier tokens see an edited one",
        "batch": "without token_type_ids, sdpa lets tokens see the padding, in transformers itself",
    },
)
