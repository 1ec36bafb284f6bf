"""DeepSeek 2: keys and values expanded from one small latent, a rotary part of its own, and experts with shared ones."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"first_k_dense_replace": 1},
)
