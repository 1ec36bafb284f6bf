"""Mistral 4: DeepSeek 3 latent attention whose queries grow with the logarithm of their position."""

from nnatlas.families._shapes import LATENT_KEYS, LLAMA

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    tiny={"head_dim": 16, "first_k_dense_replace": 1},
)
