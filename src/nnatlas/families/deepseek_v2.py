"""DeepSeek 2: keys and values expanded from one small latent, a rotary part of its own, and experts with shared ones."""

from nnatlas.families._shapes import LATENT_KEYS, LLAMA

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    tiny={"first_k_dense_replace": 1},
)
