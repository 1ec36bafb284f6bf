"""Phi-3.5-MoE: LayerNorms with biases, and two of sixteen experts chosen one after the other by SparseMixer."""

from nnatlas.families._shapes import LLAMA

_ALONE = "SparseMixer weighs an expert by 1 unless the score of another is within a hundredth of its own"

FAMILY = LLAMA.but(
    notes={"expert_weights": "1 unless the scores of two experts are within a hundredth of each other"},
    breaks={"chain expert_weights": _ALONE, "causal router_logits": _ALONE, "gradient router_logits": _ALONE},
)
