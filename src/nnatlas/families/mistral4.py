"""Mistral 4: DeepSeek 3 latent attention whose queries grow with the logarithm of their position."""

from nnatlas.families._shapes import LLAMA, PAIRS_TO_HALVES

FAMILY = LLAMA.but(
    breaks=PAIRS_TO_HALVES,
    tiny={"head_dim": 16, "first_k_dense_replace": 1},
)
