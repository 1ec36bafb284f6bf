"""Beam: sandwich norms, gated heads, and sums that weigh the stream by √((n-1)/n), n counting the sums so far."""

from nnatlas.families._shapes import SANDWICH, SCALED_EXPERTS

FAMILY = SANDWICH.but(
    attention_output="attention_post_norm > out / sqrt(block.attn_residual_add_idx)",
    mlp_output="mlp_post_norm > out / sqrt(block.mlp_residual_add_idx)",
    attention_gate="self_attn ~ sigmoid[0] > out as batch seq num_heads head_dim",
    readout="norm | lm_head | maybe cap final_logit_softcapping",
    identity="layer_input * sqrt(block.attn_residual_add_idx - 1) / sqrt(block.mlp_residual_add_idx)"
    " + attention_output * sqrt(block.attn_residual_add_idx) / sqrt(block.mlp_residual_add_idx)"
    " + mlp_output = layer_output",
    kinds=(SCALED_EXPERTS,),
)
