"""A.X K1: DeepSeek 3 with a norm on what its mixtures write."""

from nnatlas.families._shapes import LATENT_KEYS, LLAMA

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    notes={
        "routed_output": "before the norm at the mixture's end",
        "shared_expert_output": "before the norm at the mixture's end",
    },
    breaks={"chain mlp.routed_output": "the mixture norms the sum of its parts at its end"},
)
