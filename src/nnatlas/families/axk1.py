"""A.X K1: DeepSeek 3 with a norm on what its mixtures write."""

from nnatlas.families._shapes import LLAMA, PAIRS_TO_HALVES

FAMILY = LLAMA.but(
    notes={
        "routed_output": "before the norm at the mixture's end",
        "shared_expert_output": "before the norm at the mixture's end",
    },
    breaks={**PAIRS_TO_HALVES, "chain mlp.routed_output": "the mixture norms the sum of its parts at its end"},
)
